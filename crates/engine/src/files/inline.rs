//! Data kept in the inode block.
use super::Files;
use super::Inode;
use super::batch::file_log;
use super::block::put_bytes;
use crate::error::Result;
use crate::space::Placement;
use crate::transaction::{MappedPage, Op};
use segno_format::inode::{Inline, RawInode};
use segno_format::{Block, BlockAddr};
use segno_journal::data_crc;
use std::sync::Arc;
use zerocopy::little_endian::U64;

impl Inode {
    /// Whether the inode block holds the data.
    pub fn is_inline(&self) -> bool {
        self.get(|i| i.inline().contains(Inline::DATA))
    }
}

impl Files {
    /// Reads inline data; false if the data is in blocks.
    pub(super) fn read_inline(&self, inode: &Inode, offset: u64, into: &mut [u8]) -> Result<bool> {
        let layout = inode.layout(self.base.features)?;
        if !inode.is_inline() {
            return Ok(false);
        }
        let block = inode.frame.read();
        let data = layout.inline(&block);
        let from = usize::try_from(offset).ok().and_then(|o| data.get(o..)).unwrap_or_default();
        let n = from.len().min(into.len());
        let (has, lacks) = into.split_at_mut(n);
        has.copy_from_slice(from.get(..n).unwrap_or_default());
        lacks.fill(0);
        Ok(true)
    }

    /// Stores bytes in the inline area. The caller has checked that they fit.
    pub(super) fn write_inline(&self, op: &Op<'_>, inode: &Inode, offset: usize, data: &[u8]) -> Result<()> {
        let layout = inode.layout(self.base.features)?;
        self.nodes.cache.modify(op, &inode.frame, |block| {
            let size = block.view::<RawInode>().i_size.get() as usize;
            let bytes = layout.inline_mut(block);
            // Bytes past the old end become part of the file.
            bytes.get_mut(size..).unwrap_or_default().fill(0);
            put_bytes(bytes, offset, data);
            block.view_mut::<RawInode>().i_inline |= Inline::DATA_EXIST.bits();
            // Includes the zeros between the old end and `offset`.
            let from = size.min(offset);
            let changed = layout.inline(block).get(from..offset + data.len());
            op.record(inode.ino, |log| log.inline_written(from, changed.unwrap_or_default()));
        });
        Ok(())
    }

    /// Zeroes the bytes from `size` on.
    pub fn cut_inline(&self, op: &Op<'_>, inode: &Inode, size: usize) -> Result<()> {
        let layout = inode.layout(self.base.features)?;
        self.nodes.cache.modify(op, &inode.frame, |block| {
            layout.inline_mut(block).get_mut(size..).unwrap_or_default().fill(0);
            if size == 0 {
                block.view_mut::<RawInode>().i_inline &= !Inline::DATA_EXIST.bits();
            }
        });
        op.record(inode.ino, |log| log.inline_cut(size as u64));
        Ok(())
    }

    /// Moves inline data to block 0. The block is written immediately: a checkpoint before the next flush must have
    /// the data there, as the inode no longer has it.
    pub fn convert_inline(&self, op: &Op<'_>, inode: &Arc<Inode>) -> Result<()> {
        if !inode.is_inline() {
            return Ok(());
        }
        let layout = inode.layout(self.base.features)?;
        let mut content = Block::zeroed();
        let size = inode.size() as usize;
        {
            let block = inode.frame.read();
            let data = layout.inline(&block);
            let data = data.get(..size.min(data.len())).unwrap_or_default();
            put_bytes(&mut content.0, 0, data);
        }
        let crc = self.wants_checksums(inode).then(|| data_crc(&content));
        let mut placed = if content.is_zero() { None } else { Some(self.place_inline(inode, content)?) };
        let addrs = placed.as_mut().map(|placed| std::mem::take(&mut placed.addrs)).unwrap_or_default();
        let place = addrs.first().copied();
        self.nodes.cache.modify(op, &inode.frame, |block| {
            layout.inline_mut(block).fill(0);
            let raw: &mut RawInode = block.view_mut();
            raw.i_inline &= !(Inline::DATA | Inline::DATA_EXIST).bits();
            raw.set_slot(&layout, 0, place.unwrap_or(BlockAddr::NULL));
            raw.i_blocks = U64::new(raw.i_blocks.get().saturating_add(place.is_some().into()));
        });
        op.inline_off(inode.ino, place.map(|addr| MappedPage { page: 0, addr, crc }));
        placed.as_mut().map_or(Ok(()), |placed| self.space.publish(placed, &addrs, &[]))
    }

    /// Writes the data to a new block.
    fn place_inline(&self, inode: &Inode, content: Block) -> Result<Placement> {
        let owner = self.nodes.summary_of(inode.frame.nid, 0)?;
        self.space.counts.reserve_blocks(1)?;
        let placed = self.write_new(vec![content], |space| space.allocate(file_log(inode), &[owner]));
        placed.or_else(|e| self.space.counts.release_blocks(1).and(Err(e)))
    }
}
