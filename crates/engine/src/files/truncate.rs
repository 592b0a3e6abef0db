//! Freeing blocks of a file: its tail, or a range in the middle.
use super::Files;
use super::Inode;
use crate::error::Result;
use crate::transaction::Op;
use std::ops::Range;
use std::sync::Arc;

impl Files {
    /// Frees about `budget` blocks and nodes from the end of the file down to file block `from`; true when none is
    /// left.
    pub fn truncate_blocks(&self, op: &Op<'_>, inode: &Arc<Inode>, from: u64, budget: usize) -> Result<bool> {
        inode.pages.lock().drop_range(from..u64::MAX, &self.base.mem);
        self.nodes.truncate(op, &inode.frame, from, budget)
    }

    /// Punches a hole into a range of file blocks. The nodes are kept.
    pub fn free_range(&self, op: &Op<'_>, inode: &Arc<Inode>, range: Range<u64>) -> Result<()> {
        inode.pages.lock().drop_range(range.clone(), &self.base.mem);
        self.nodes.free_range(op, &inode.frame, range)
    }
}
