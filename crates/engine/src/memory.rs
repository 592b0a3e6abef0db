//! How many cached blocks there are, by kind and state; the figures that balancing and `stats` look at.
use std::sync::atomic::{AtomicI64, Ordering};

/// Counts of cached 4 KiB blocks. They steer policy only, so relaxed ordering is enough.
#[derive(Debug, Default)]
pub struct Memory {
    /// Node frames in the cache.
    pub nodes: Counter,
    /// Node frames that the next checkpoint must write.
    pub dirty_nodes: Counter,
    /// Pages of files and directories in the cache.
    pub pages: Counter,
    /// Dirty pages of regular files and symlinks.
    pub dirty_data: Counter,
    /// Dirty pages of directories.
    pub dirty_dents: Counter,
    /// Pages that writes under way will make dirty.
    pub coming: Counter,
}

/// Blocks that count until this is dropped.
#[derive(Debug)]
pub struct Counted<'a>(&'a Counter, i64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.add(-self.1);
    }
}

/// A counter that several threads move.
#[derive(Debug, Default)]
pub struct Counter(AtomicI64);

impl Counter {
    pub fn add(&self, n: i64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
    pub fn hold(&self, n: usize) -> Counted<'_> {
        self.add(n as i64);
        Counted(self, n as i64)
    }
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed).max(0).unsigned_abs()
    }
}
