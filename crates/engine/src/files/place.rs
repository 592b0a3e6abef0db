//! Taking dirty pages into a batch, and placing those of directories and quota files at a boundary.
use super::{Batch, Files, FlushReason, Inode};
use crate::error::Result;
use crate::gate::Op;
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
    pub fn place_closed(&self, op: &Op<'_>, inode: &Arc<Inode>, placed: &mut Vec<Batch>) -> Result<()> {
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
