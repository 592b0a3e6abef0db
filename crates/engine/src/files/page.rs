//! Cached blocks of one file or directory.
//!
//! Regular files keep only dirty pages and pages under writeback: the kernel or the caller caches clean data better.
//! Directories keep clean pages too, until eviction.
use super::Tags;
use crate::block::{SharedBlock, shared};
use crate::memory::Counter;
use crate::memory::Memory;
use segno_format::{BLOCK_SIZE, Block};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// One cached block.
#[derive(Debug)]
pub struct Page {
    pub block: SharedBlock,
    /// Newer than the block on the device.
    pub dirty: bool,
    /// The flush writing the page, if any; cleared when the page is dropped or replaced.
    pub flush_id: Option<u64>,
    /// Index for name lookups, built by the first one.
    tags: Option<Box<Tags>>,
    /// Used since the eviction hand last passed.
    used: Cell<bool>,
}

impl Page {
    fn clean(block: SharedBlock) -> Self {
        Self { block, dirty: false, flush_id: None, tags: None, used: Cell::new(true) }
    }
    /// Whether the page is clean and unreferenced. A batch that is placed but not yet written refers to the block.
    fn is_evictable(&self) -> bool {
        !self.dirty && self.flush_id.is_none() && Arc::strong_count(&self.block) == 1
    }
    /// Marks the tags stale before a change.
    fn make_stale(&mut self) {
        self.tags.iter_mut().for_each(|t| t.make_stale());
    }
}

/// Dirty pages of the files of one writeback context.
#[derive(Debug)]
pub struct DirtyAccount {
    /// Number of the context.
    pub context: u32,
    pub pages: Counter,
}

/// The pages of one inode, by file block.
#[derive(Debug)]
pub struct PageMap {
    pages: BTreeMap<u64, Page>,
    dirty: usize,
    is_dir: bool,
    /// The file size to publish with the pages of the flush in progress.
    pub covered: u64,
    /// Account of the writeback context that has the file on its list.
    account: Option<Arc<DirtyAccount>>,
    /// Position of the eviction hand.
    hand: u64,
}

impl PageMap {
    pub fn new(is_dir: bool) -> Self {
        Self { pages: BTreeMap::new(), dirty: 0, is_dir, covered: 0, account: None, hand: 0 }
    }

    fn count_dirty(&mut self, mem: &Memory, n: i64) {
        self.dirty = if n > 0 { self.dirty + 1 } else { self.dirty - 1 };
        if self.is_dir { &mem.dirty_dents } else { &mem.dirty_data }.add(n);
        if let Some(account) = &self.account {
            account.pages.add(n);
        }
    }

    /// The account of the context that writes these pages back.
    pub fn account(&self) -> Option<&Arc<DirtyAccount>> {
        self.account.as_ref()
    }
    /// Moves the pages to the account of another context, or to none.
    pub fn set_account(&mut self, account: Option<Arc<DirtyAccount>>) {
        let dirty = self.dirty as i64;
        self.account.iter().for_each(|c| c.pages.add(-dirty));
        account.iter().for_each(|c| c.pages.add(dirty));
        self.account = account;
    }

    /// The content of a cached block.
    pub fn get(&self, index: u64) -> Option<SharedBlock> {
        let page = self.pages.get(&index)?;
        page.used.set(true);
        Some(page.block.clone())
    }
    /// The cached page.
    pub fn page(&self, index: u64) -> Option<&Page> {
        self.pages.get(&index)
    }
    /// A cached dentry block with its tags.
    pub fn names(&mut self, index: u64) -> Option<(&Block, &Tags)> {
        let page = self.pages.get_mut(&index)?;
        page.used.set(true);
        let tags = page.tags.get_or_insert_default();
        tags.refresh(&page.block);
        Some((&page.block, tags))
    }
    /// Number of dirty pages.
    pub fn dirty(&self) -> usize {
        self.dirty
    }
    /// Inserts a clean page unless one is cached; returns the cached one.
    pub fn insert_clean(&mut self, index: u64, block: SharedBlock, mem: &Memory) -> SharedBlock {
        let page = self.pages.entry(index).or_insert_with(|| {
            mem.pages.add(1);
            Page::clean(block)
        });
        page.block.clone()
    }
    /// Makes a page dirty and applies `change`. A missing page gets its content from `fill`.
    pub fn modify(
        &mut self,
        index: u64,
        mem: &Memory,
        fill: impl FnOnce() -> SharedBlock,
        change: impl FnOnce(&mut Block),
    ) {
        let page = self.pages.entry(index).or_insert_with(|| {
            mem.pages.add(1);
            Page::clean(fill())
        });
        page.make_stale();
        // A page under writeback shares its block with the I/O: make_mut then continues on a copy.
        let block: &mut Box<Block> = Arc::make_mut(&mut page.block);
        change(block);
        if !std::mem::replace(&mut page.dirty, true) {
            self.count_dirty(mem, 1);
        }
    }
    /// Cached blocks of a range, ascending.
    pub fn cached_in(&self, range: std::ops::Range<u64>) -> Vec<(u64, SharedBlock)> {
        if self.pages.is_empty() || range.start >= range.end {
            return Vec::new();
        }
        self.pages.range(range).map(|(&i, p)| (i, p.block.clone())).collect()
    }
    /// Whether all pages of a range are cached.
    pub fn has_all(&self, range: std::ops::Range<u64>) -> bool {
        range.end.saturating_sub(range.start) == self.pages.range(range).count() as u64
    }
    /// Whether a page of a range was changed since its flush began.
    pub fn is_dirty_in(&self, range: std::ops::Range<u64>) -> bool {
        self.pages.range(range).any(|(_, p)| p.dirty)
    }
    /// Replaces the whole content of a block.
    pub fn put(&mut self, index: u64, content: &[u8; BLOCK_SIZE], mem: &Memory) {
        let fill = || shared(Block(*content));
        let page = match self.pages.entry(index) {
            Entry::Vacant(v) => {
                mem.pages.add(1);
                v.insert(Page::clean(fill()))
            }
            Entry::Occupied(o) => {
                let page = o.into_mut();
                page.make_stale();
                match Arc::get_mut(&mut page.block) {
                    Some(block) => block.0.copy_from_slice(content),
                    None => page.block = fill(),
                }
                page
            }
        };
        if !std::mem::replace(&mut page.dirty, true) {
            self.count_dirty(mem, 1);
        }
    }
    /// The first page from `index` on that satisfies `is`.
    pub fn first_from(&self, index: u64, mut is: impl FnMut(&Page) -> bool) -> Option<u64> {
        self.pages.range(index..).find(|(_, p)| is(p)).map(|(&i, _)| i)
    }
    /// Indices of up to `max` dirty pages in a range, ascending.
    pub fn dirty_in(&self, range: std::ops::Range<u64>, max: usize) -> Vec<u64> {
        if self.dirty == 0 || range.start >= range.end {
            return Vec::new();
        }
        self.pages.range(range).filter(|(_, p)| p.dirty).map(|(&i, _)| i).take(max).collect()
    }
    /// Takes a dirty page into flush `id`. It counts as clean unless it is written again.
    pub fn begin_flush(&mut self, index: u64, id: u64, mem: &Memory) -> Option<SharedBlock> {
        let page = self.pages.get_mut(&index).filter(|p| p.dirty)?;
        page.dirty = false;
        page.flush_id = Some(id);
        let out = page.block.clone();
        self.count_dirty(mem, -1);
        Some(out)
    }
    /// Whether a page still belongs to flush `id`, that is, was not dropped meanwhile.
    pub fn in_flush(&self, index: u64, id: u64) -> bool {
        self.pages.get(&index).is_some_and(|p| p.flush_id == Some(id))
    }
    /// Ends the flush of a page: drops it (files) or keeps it clean (directories); `failed` makes it dirty again.
    pub fn end_flush(&mut self, index: u64, id: u64, failed: bool, mem: &Memory) {
        let Some(page) = self.pages.get_mut(&index).filter(|p| p.flush_id == Some(id)) else { return };
        page.flush_id = None;
        if failed && !page.dirty {
            page.dirty = true;
            self.count_dirty(mem, 1);
        } else if !page.dirty && !self.is_dir {
            self.pages.remove(&index);
            mem.pages.add(-1);
        }
    }
    pub fn has_any(&self) -> bool {
        !self.pages.is_empty()
    }
    pub fn has_clean(&self) -> bool {
        self.pages.len() > self.dirty
    }
    /// Evicts up to `max` clean pages of a directory that were not used since the hand last passed, and returns their
    /// number. The caller holds the directory's lock: an operation relies on pages that it has already found.
    pub fn evict(&mut self, max: usize, mem: &Memory) -> usize {
        if !self.is_dir || !self.has_clean() {
            return 0;
        }
        let looks = max.saturating_mul(2);
        let mut gone = Vec::new();
        let mut next = 0;
        for (&i, page) in self.pages.range(self.hand..).take(looks) {
            next = i + 1;
            if page.is_evictable() && !page.used.replace(false) {
                gone.push(i);
                if gone.len() == max {
                    break;
                }
            }
        }
        let is_round = self.pages.range(next..).next().is_none();
        self.hand = if is_round { 0 } else { next };
        gone.iter().for_each(|i| drop(self.pages.remove(i)));
        mem.pages.add(-(gone.len() as i64));
        gone.len()
    }
    /// Drops pages, clean or dirty.
    pub fn drop_range(&mut self, range: std::ops::Range<u64>, mem: &Memory) {
        if range.start >= range.end {
            return;
        }
        let gone: Vec<u64> = self.pages.range(range).map(|(&i, _)| i).collect();
        for i in gone {
            if let Some(p) = self.pages.remove(&i) {
                mem.pages.add(-1);
                if p.dirty {
                    self.count_dirty(mem, -1);
                }
            }
        }
    }
    /// Indices of all pages in a range, ascending.
    pub fn indices(&self, range: std::ops::Range<u64>) -> Vec<u64> {
        if range.start >= range.end { Vec::new() } else { self.pages.range(range).map(|(&i, _)| i).collect() }
    }
}
