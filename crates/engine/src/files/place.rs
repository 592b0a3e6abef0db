//! Taking dirty pages into a batch; placing blocks that are not pages; placing blocks of directories and quota files at a boundary.
use super::{Batch, Files, FlushReason, Inode};
use crate::error::Result;
use crate::gate::Op;
use crate::health::invariant;
use crate::space::Space;
use segno_format::{Block, BlockAddr};
use std::ops::Range;
use std::sync::Arc;

impl Files {
    /// Takes dirty pages of inodes; writes those of pinned files immediately. Returns the position to continue at.
    pub fn take_all(
        &self,
        inodes: &[Arc<Inode>],
        range: Range<u64>,
        batch: &mut Batch,
    ) -> Result<Option<u64>> {
        let _op = self.nodes.gate.enter();
        let mut next = None;
        for inode in inodes {
            next = next.or(self.take_pages(inode, range.clone(), batch)?);
        }
        self.write_pinned(batch)?;
        Ok(next)
    }

    /// Allocates addresses for blocks and writes them before another thread takes the next ones, so that zones are written in order. The
    /// blocks are not published.
    pub fn write_new(
        &self,
        blocks: Vec<Arc<Block>>,
        allocate: impl FnOnce(&Space) -> Result<Vec<BlockAddr>>,
    ) -> Result<Vec<BlockAddr>> {
        let _order = self.nodes.in_order();
        let addrs = allocate(&self.space)?;
        let complete = addrs.len() == blocks.len();
        invariant!(self.base.health, complete, "new blocks get another number of addresses than of blocks");
        let mut out: Vec<(BlockAddr, Arc<Block>)> = addrs.iter().copied().zip(blocks).collect();
        self.base.dev.write_scattered(&mut out).inspect_err(|e| {
            self.space.abandon(&addrs);
            self.base.stop_if_zoned(e);
        })?;
        Ok(addrs)
    }

    /// Places all dirty blocks of directories. The gate is closed.
    pub fn place_directories(&self, op: &Op<'_>, placed: &mut Vec<Batch>) -> Result<()> {
        for dir in self.inodes.dirty_dirs() {
            self.place_closed(op, &dir, placed)?;
            self.inodes.settle(&dir);
        }
        Ok(())
    }

    /// Places all dirty blocks of an inode and publishes them. The gate is closed. They must be written before the
    /// checkpoint that names them is committed.
    pub(super) fn place_closed(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        placed: &mut Vec<Batch>,
    ) -> Result<()> {
        let mut next = Some(0);
        while let Some(at) = next {
            let mut batch = Batch::new(self.base.next_serial(), FlushReason::Wanted);
            next = self.take_pages(inode, at..u64::MAX, &mut batch)?;
            if self.base.dev.is_zoned() {
                // Placed blocks are written before the next addresses are allocated.
                self.write_batch(&mut batch)?;
                self.publish_batch(op, &batch)?;
                continue;
            }
            self.place(&mut batch)?;
            self.space.expect(&batch.addrs());
            self.publish_batch(op, &batch)?;
            placed.push(batch);
        }
        Ok(())
    }
}
