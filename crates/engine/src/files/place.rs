//! Taking dirty pages into a batch; placing blocks that are not pages; placing blocks of directories and quota files at a boundary.
use super::{Batch, Files, FlushReason, Inode};
use crate::block::{SharedBlock, shared};
use crate::error::Result;
use crate::health::invariant;
use crate::space::{Placement, Space};
use crate::transaction::{ChainGuard, Op};
use segno_format::{Block, BlockAddr};
use std::ops::Range;
use std::sync::Arc;

/// Pages that the index names before they are written. The batch holds their inodes, so they stay in memory
/// until then; the placement keeps cleaning from copying blocks that are not on the device yet.
pub type Early = (Batch, Placement);

impl Files {
    /// Takes dirty pages of inodes; pages of pinned files are written immediately. Returns the position to
    /// continue at.
    pub fn take_all(
        &self,
        inodes: &[Arc<Inode>],
        range: Range<u64>,
        batch: &mut Batch,
    ) -> Result<Option<u64>> {
        let _op = self.base.tx.begin();
        let mut next = None;
        for inode in inodes {
            next = next.or(self.take_pages(inode, range.clone(), batch)?);
        }
        self.write_pinned(batch)?;
        Ok(next)
    }

    /// Where sections are written in order, addresses are written before the next ones are allocated.
    pub(crate) fn in_order(&self) -> Option<ChainGuard<'_>> {
        self.base.dev.is_zoned().then(|| self.base.tx.chain.lock())
    }

    /// Allocates addresses for blocks and writes them before another thread takes the next ones, so that zones are written in order.
    pub fn write_new(
        &self,
        blocks: Vec<Block>,
        allocate: impl FnOnce(&Space) -> Result<Placement>,
    ) -> Result<Placement> {
        let _order = self.in_order();
        let placed = allocate(&self.space)?;
        let complete = placed.addrs.len() == blocks.len();
        invariant!(self.base.health, complete, "new blocks get another number of addresses than of blocks");
        let blocks = blocks.into_iter().map(shared);
        let mut out: Vec<(BlockAddr, SharedBlock)> = placed.addrs.iter().copied().zip(blocks).collect();
        self.base.dev.write_scattered(&mut out).inspect_err(|e| self.base.stop_if_zoned(e))?;
        Ok(placed)
    }

    /// Places all dirty blocks of directories. The gate is closed.
    pub fn place_directories(&self, op: &Op<'_>, early: &mut Vec<Early>) -> Result<()> {
        for dir in self.inodes.dirty_dirs() {
            self.place_closed(op, &dir, early)?;
            self.inodes.settle(&dir);
        }
        Ok(())
    }

    /// Places all dirty blocks of an inode and publishes them. The gate is closed. They must be written before the
    /// checkpoint that names them is committed.
    pub(super) fn place_closed(&self, op: &Op<'_>, inode: &Arc<Inode>, early: &mut Vec<Early>) -> Result<()> {
        let mut next = Some(0);
        while let Some(at) = next {
            let mut batch = Batch::new(self.base.next_serial(), FlushReason::Wanted);
            next = self.take_pages(inode, at..u64::MAX, &mut batch)?;
            if self.base.dev.is_zoned() {
                // Placed blocks are written before the next addresses are allocated.
                let placed = self.write_batch(&mut batch)?;
                self.publish_batch(op, &batch, placed)?;
                continue;
            }
            // In this order no crash shows a slot whose block is missing: a pack that has the slots is written after the blocks, and no
            // fsync appends to the chain meanwhile.
            let placed = self.place(&mut batch)?;
            let expected = self.space.expect(&placed.addrs);
            self.publish_batch(op, &batch, placed)?;
            early.push((batch, expected));
        }
        Ok(())
    }
}
