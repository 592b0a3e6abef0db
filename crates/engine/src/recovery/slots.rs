//! Replay of the slots of an inode or a direct node.
use super::chain::{Link, broken};
use crate::error::Result;
use crate::files::Inode;
use crate::nodes::{NodeFrame, Place};
use crate::recovery::Recovery;
use crate::transaction::Op;
use segno_format::inode::{Advise, Inline, InodeLayout, RawInode};
use segno_format::node::{RawNode, first_block};
use segno_format::{BLOCK_SIZE, Block, BlockAddr};
use std::sync::Arc;
use zerocopy::little_endian::U64;

impl Recovery<'_> {
    /// The slots of a logged node: none with inline data, nor of a node without slots.
    pub(super) fn logged_slots(&self, link: &Link, block: &Block) -> Result<Vec<BlockAddr>> {
        let slots: Vec<BlockAddr> = if link.is_inode() {
            let raw: &RawInode = block.view();
            if raw.inline().contains(Inline::DATA) {
                return Ok(Vec::new());
            }
            let layout = raw.layout(self.base.features)?;
            (0..layout.slots).map(|i| raw.slot(&layout, i)).collect()
        } else if first_block(link.node_offset, 0, 0).is_some() {
            let raw: &RawNode = block.view();
            raw.words.iter().map(|w| BlockAddr(w.get())).collect()
        } else {
            return Ok(Vec::new());
        };
        match slots.iter().find(|&&a| a == BlockAddr::COMPRESS || (a.is_real() && !self.base.geo.in_main(a)))
        {
            Some(bad) => Err(broken(link.addr, "a slot names no data block", bad.0.into(), 0).into()),
            None => Ok(slots),
        }
    }

    pub(super) fn replay_direct(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        link: &Link,
        block: &Block,
    ) -> Result<()> {
        if inode.get(|i| i.inline().contains(Inline::DATA)) {
            return Err(broken(link.addr, "a direct node of an inode with inline data", 1, 0).into());
        }
        let slots = self.logged_slots(link, block)?;
        let layout = inode.layout(self.base.features)?;
        let first = first_block_of(link, &layout);
        let frame = match self.files.nodes.find_span(&inode.frame, first)? {
            Place::Span(span) => span.frame,
            Place::Missing { .. } if slots.iter().all(|&a| a == BlockAddr::NULL) => return Ok(()),
            Place::Missing { .. } => self.files.nodes.dnode_for_write(op, &inode.frame, first)?.0,
        };
        let offset = frame.footer().node_offset();
        if offset != link.node_offset {
            return Err(broken(link.addr, "node offset", link.node_offset.into(), offset.into()).into());
        }
        self.replay_slots(op, inode, &frame, link, &slots)
    }

    /// Replaces the slots of a node by the logged ones.
    pub(super) fn replay_slots(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        frame: &Arc<NodeFrame>,
        link: &Link,
        slots: &[BlockAddr],
    ) -> Result<()> {
        for (slot, &dest) in (0..).zip(slots) {
            let src = self.files.nodes.slot_addr(frame, slot)?;
            if src == dest {
                continue;
            }
            if src == BlockAddr::COMPRESS {
                return Err(broken(link.addr, "a slot of a compressed cluster", slot.into(), 0).into());
            }
            self.files.nodes.reserve_slot(op, &inode.frame, frame, slot)?;
            if dest.is_real() {
                self.take_over(op, frame, slot, dest, link)?;
            }
            if src.is_real() {
                self.files.space.invalidate(&[src])?;
            }
            if dest == BlockAddr::NULL {
                self.files.space.counts.release_blocks(1)?;
                self.files.nodes.add_blocks(op, &inode.frame, -1);
            }
            self.files.nodes.set_slot(op, &inode.frame, frame, slot, dest)?;
        }
        Ok(())
    }

    /// Marks a data block valid, owned by a slot of the node.
    fn take_over(
        &self,
        op: &Op<'_>,
        frame: &NodeFrame,
        slot: u32,
        dest: BlockAddr,
        link: &Link,
    ) -> Result<()> {
        if self.files.space.is_valid(dest) {
            self.disown(op, dest, link)?;
        }
        self.files.space.adopt(dest, self.files.nodes.summary_of(frame.nid, slot)?)
    }

    /// Clears the slot that pointed to a block before it moved within this file or to another one.
    fn disown(&self, op: &Op<'_>, addr: BlockAddr, link: &Link) -> Result<()> {
        let unowned =
            || broken(link.addr, "a slot names a block in use that no other slot names", addr.0.into(), 0);
        let (seg, off) = self.base.geo.seg_of(addr).ok_or_else(unowned)?;
        let owner = self.files.space.summary(seg)?.entries.get(off as usize).copied().unwrap_or_default();
        let (frame, slot) = (self.files.nodes.cache.get(owner.nid())?, owner.ofs_in_node.get().into());
        if self.files.nodes.slot_addr(&frame, slot)? != addr {
            return Err(unowned().into());
        }
        let inode = self.files.inode(frame.ino)?;
        self.files.nodes.set_slot(op, &inode.frame, &frame, slot, BlockAddr::NULL)?;
        self.files.space.invalidate(&[addr])?;
        self.files.space.counts.release_blocks(1)?;
        self.files.nodes.add_blocks(op, &inode.frame, -1);
        Ok(())
    }

    /// Frees blocks beyond the logged size. Nodes freed by a truncation are not in the chain, so their old content is
    /// still there.
    pub(super) fn drop_tail(&self, op: &Op<'_>, inode: &Arc<Inode>) -> Result<()> {
        let (keep, inline) =
            inode.get(|i| (i.advise().contains(Advise::KEEP_SIZE), i.inline().contains(Inline::DATA)));
        if !keep && !inline {
            let end = inode.size().div_ceil(BLOCK_SIZE as u64);
            while !self.files.truncate_blocks(op, inode, end, usize::MAX)? {}
        }
        Ok(())
    }

    /// Without a logged inode block, the size must at least cover the logged blocks.
    pub(super) fn grow_to_blocks(&self, op: &Op<'_>, inode: &Arc<Inode>, nodes: &[Link]) -> Result<()> {
        if inode.get(|i| i.advise().contains(Advise::KEEP_SIZE)) {
            return Ok(());
        }
        let layout = inode.layout(self.base.features)?;
        let mut end = 0;
        for link in nodes {
            let slots = self.logged_slots(link, &self.base.dev.read(link.addr)?)?;
            if let Some(last) = slots.iter().rposition(|&a| a != BlockAddr::NULL) {
                end = end.max(first_block_of(link, &layout).saturating_add(last as u64 + 1));
            }
        }
        let covered = end.saturating_sub(1).saturating_mul(BLOCK_SIZE as u64);
        if end > 0 && inode.size() <= covered {
            let size = U64::new(covered.saturating_add(BLOCK_SIZE as u64));
            self.files.nodes.cache.modify_inode(op, &inode.frame, |i| i.i_size = size);
        }
        Ok(())
    }
}

fn first_block_of(link: &Link, layout: &InodeLayout) -> u64 {
    first_block(link.node_offset, layout.slots, layout.per_node).unwrap_or(0)
}
