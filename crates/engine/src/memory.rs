//! What the caches hold, by kind and state; the figures that `cache=` bounds and `stats` shows.
use crate::inode::Inode;
use crate::node::NodeFrame;
use segno_format::Block;
use std::sync::atomic::{AtomicI64, Ordering};

/// A block in an `Arc` of its own, as the allocator sees it.
const BLOCK: u64 = size_of::<Block>() as u64 + 32;
/// Bytes of a map entry with its part of the table, and of the `Arc` behind it.
const ENTRY: u64 = 80;
const NODE: u64 = BLOCK + size_of::<NodeFrame>() as u64 + ENTRY;
const INODE: u64 = size_of::<Inode>() as u64 + ENTRY;
/// With its place in the map of pages, and the hash tags of a directory block.
const PAGE: u64 = BLOCK + 96 + 240;

/// Counts of cached 4 KiB blocks. They steer policy only, so relaxed ordering is enough.
#[derive(Debug, Default)]
pub struct Memory {
    /// Node frames in the cache.
    pub nodes: Counter,
    /// Blocks that a checkpoint under way writes in place of newer ones in their frames.
    pub frozen: Counter,
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
    /// Pages that writes under way will make dirty.
    pub coming: Counter,
}

impl Memory {
    /// Bytes of heap memory that cached nodes, pages and inodes take.
    pub fn bytes(&self) -> u64 {
        self.nodes.get() * NODE
            + self.frozen.get() * BLOCK
            + self.inodes.get() * INODE
            + self.pages.get() * PAGE
    }
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
