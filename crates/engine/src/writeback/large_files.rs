//! Early writeback of large files. A large file is likely to grow and to be synced, while many small files may be
//! deleted before they need to be written.
use super::Writeback;
use crate::files::Inode;
use std::sync::Arc;

/// Dirty pages that make a file large, as a fraction of the cache.
pub const LARGE_DIVISOR: u64 = 16;

impl Writeback {
    /// Schedules writeback of a file with many dirty pages.
    pub(crate) fn hint_large(&self, inode: &Inode) {
        let large = self.base.cache_blocks() / LARGE_DIVISOR;
        if self.base.mem.dirty_data.get() <= large {
            return;
        }
        let pages = inode.pages.lock();
        let context = pages.account().filter(|_| pages.dirty() as u64 > large).map(|a| a.context);
        drop(pages);
        context.into_iter().for_each(|id| self.threads.wake(id));
    }

    /// The large files among `files`. Each is written until half of the threshold is left.
    pub(crate) fn large_among(&self, files: Vec<Arc<Inode>>) -> Vec<Arc<Inode>> {
        let enough = self.base.cache_blocks() / LARGE_DIVISOR / 2;
        files.into_iter().filter(|f| f.pages.lock().dirty() as u64 > enough).collect()
    }
}
