//! Replay of data blocks and inline data.
use super::misfit;
use crate::error::Result;
use crate::files::{Inode, put_bytes};
use crate::recovery::Recovery;
use crate::transaction::Op;
use segno_format::inode::{Inline, RawInode};
use segno_format::{BLOCK_SIZE, BlockAddr};
use segno_journal::record::Mapping;
use std::ops::Range;
use std::sync::Arc;

impl Recovery<'_> {
    fn in_blocks(&self, inode: &Inode) -> Result<()> {
        let inline = inode.get(|i| i.inline().contains(Inline::DATA));
        if inline || inode.is_dir() {
            return Err(misfit(inode.ino, "blocks of an inode that has none", inline.into()));
        }
        Ok(())
    }

    pub(super) fn replay_map(&self, op: &Op<'_>, inode: &Arc<Inode>, mapping: &Mapping) -> Result<()> {
        self.in_blocks(inode)?;
        for run in &mapping.runs {
            for i in 0..run.count {
                let page = run.page.saturating_add(i.into());
                if !mapping.moved && self.files.packed.is_packed(inode, page)? {
                    self.files.packed.dissolve(op, inode, page)?;
                }
                self.map_block(op, inode, page, run.addr.offset(i))?;
            }
        }
        Ok(())
    }

    fn map_block(&self, op: &Op<'_>, inode: &Arc<Inode>, block: u64, addr: BlockAddr) -> Result<()> {
        let (frame, slot) = self.files.nodes.dnode_for_write(op, &inode.frame, block)?;
        let old = self.files.nodes.slot_addr(&frame, slot)?;
        if old == BlockAddr::COMPRESS {
            return Err(misfit(inode.ino, "a block of a compressed cluster", block));
        }
        self.files.nodes.reserve_slot(op, &inode.frame, &frame, slot)?;
        self.files.space.adopt(addr, self.files.nodes.summary_of(frame.nid, slot)?)?;
        self.files.nodes.set_slot(op, &inode.frame, &frame, slot, addr)?;
        if old.is_real() { self.files.space.invalidate(&[old]) } else { Ok(()) }
    }

    pub(super) fn replay_reserve(&self, op: &Op<'_>, inode: &Arc<Inode>, blocks: Range<u64>) -> Result<()> {
        self.in_blocks(inode)?;
        self.files.reserve_range(op, inode, blocks)
    }

    pub(super) fn replay_unmap(&self, op: &Op<'_>, inode: &Arc<Inode>, blocks: Range<u64>) -> Result<()> {
        self.in_blocks(inode)?;
        self.files.free_range(op, inode, blocks)
    }

    pub(super) fn replay_truncate(&self, op: &Op<'_>, inode: &Arc<Inode>, size: u64) -> Result<()> {
        if inode.get(|i| i.inline().contains(Inline::DATA)) {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            return self.files.cut_inline(op, inode, size);
        }
        self.in_blocks(inode)?;
        while !self.files.truncate_blocks(op, inode, size.div_ceil(BLOCK_SIZE as u64), usize::MAX)? {}
        Ok(())
    }

    pub(super) fn replay_inline(&self, op: &Op<'_>, inode: &Inode, offset: u16, bytes: &[u8]) -> Result<()> {
        let area = inode.layout(self.base.features)?.inline_range();
        let at = area.start.saturating_add(offset.into());
        let fits = at.saturating_add(bytes.len()) <= area.end;
        if !fits || !inode.get(|i| i.inline().contains(Inline::DATA)) {
            return Err(misfit(inode.ino, "inline data of an inode without room for it", offset.into()));
        }
        self.files.nodes.cache.modify(op, &inode.frame, |block| {
            put_bytes(&mut block.0, at, bytes);
            block.view_mut::<RawInode>().i_inline |= Inline::DATA_EXIST.bits();
        });
        Ok(())
    }

    pub(super) fn replay_inline_off(&self, op: &Op<'_>, inode: &Inode) -> Result<()> {
        let layout = inode.layout(self.base.features)?;
        if !inode.get(|i| i.inline().contains(Inline::DATA)) {
            return Err(misfit(inode.ino, "inline data of an inode with blocks", 0));
        }
        self.files.nodes.cache.modify(op, &inode.frame, |block| {
            layout.inline_mut(block).fill(0);
            block.view_mut::<RawInode>().i_inline &= !(Inline::DATA | Inline::DATA_EXIST).bits();
        });
        Ok(())
    }
}
