//! Memory used by the caches, by kind and state; bounded by `cache=` and shown by `stats`.
use segno_format::Block;
use std::sync::atomic::{AtomicI64, Ordering};

/// Bytes of a block in its own `Arc`, including allocator overhead.
const BLOCK: u64 = size_of::<Block>() as u64 + 32;
/// Bytes of a map entry with its share of the table, and of the `Arc` it holds.
const ENTRY: u64 = 80;
/// Bytes of a page with its entry in the page map and the tags of a directory block.
const PAGE: u64 = BLOCK + 96 + 240;

/// Counts of cached 4 KiB blocks. They only guide policy, so relaxed ordering is enough.
#[derive(Debug, Default)]
pub struct Memory {
    /// Bytes of a cached node and of a cached inode.
    node: u64,
    inode: u64,
    /// Node frames in the cache.
    pub nodes: Counter,
    /// Old blocks kept for a checkpoint in progress, where the frame has a newer one.
    pub frozen: Counter,
    /// Bytes of the counters of lookup references held by a front end.
    pub references: Counter,
    /// Inodes in the cache.
    pub inodes: Counter,
    /// Node frames that the next checkpoint must write.
    pub dirty_nodes: Counter,
    /// Pages of files and directories in the cache.
    pub pages: Counter,
    /// Dirty pages of regular files and symlinks.
    pub dirty_data: Counter,
    /// Dirty pages of directories.
    pub dirty_dents: Counter,
    /// Blocks that writeback, fsyncs and cleaning in progress may place.
    pub granted: Counter,
    /// Nodes that will be dirty when the pages among them are published.
    pub granted_nodes: Counter,
    /// Dirty nodes that the checkpoint in progress has yet to write.
    pub in_checkpoint: Counter,
    /// Pages that writes in progress will make dirty.
    pub in_flight: Counter,
}

impl Memory {
    /// Creates counters for caches with these entry sizes, excluding blocks and allocation overhead.
    pub fn new(node: usize, inode: usize) -> Self {
        Self { node: BLOCK + node as u64 + ENTRY, inode: inode as u64 + ENTRY, ..Self::default() }
    }
    /// Heap bytes of cached nodes, pages and inodes.
    pub fn bytes(&self) -> u64 {
        self.nodes.get() * self.node
            + self.frozen.get() * BLOCK
            + self.inodes.get() * self.inode
            + self.pages.get() * PAGE
    }
}

/// Adds to a counter until dropped.
#[derive(Debug)]
pub struct Counted<'a>(&'a Counter, i64);

impl Counted<'_> {
    /// The number added.
    pub fn count(&self) -> u64 {
        self.1.max(0).unsigned_abs()
    }

    /// Takes up to `n` out; both together add as much as before.
    pub fn split(&mut self, n: u64) -> Self {
        let taken = self.count().min(n).cast_signed();
        self.1 -= taken;
        Self(self.0, taken)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.add(-self.1);
    }
}

/// A counter shared by threads.
#[derive(Debug, Default)]
pub struct Counter(AtomicI64);

impl Counter {
    pub fn add(&self, n: i64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
    pub fn set(&self, n: u64) {
        self.0.store(n as i64, Ordering::Relaxed);
    }
    pub fn hold(&self, n: usize) -> Counted<'_> {
        self.add(n as i64);
        Counted(self, n as i64)
    }
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed).max(0).unsigned_abs()
    }
}
