//! Admission: checks of memory, journal space, free sections and throttling before an operation takes its first lock.
use crate::base::Base;
use crate::commit::Commit;
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::writeback::Writeback;
use segno_format::{BLOCK_SIZE, Ino};
use std::sync::Arc;

/// Percentage of all nids above which changed NAT entries make a checkpoint due, as in F2FS.
const NAT_DIRTY_PERCENT: u64 = 10;
/// Absolute bounds of the same limit. A checkpoint holds about 100 bytes of memory for each changed entry.
const NAT_DIRTY_MAX: u64 = 400_000;
const NAT_DIRTY_MIN: u64 = 1000;
const CACHE_PER_NAT: u64 = 256;
/// Entries evicted per call: a few for each that an operation adds.
const EVICT_MIN: u64 = 32;
const EVICT_MAX: u64 = 1024;
/// Fraction of the cache above the limit at which eviction waits for directories in use. Otherwise a
/// directory in constant use would grow without bound.
const URGENT: u64 = 8;

/// Admits operations. No lock is held while an operation waits here.
pub struct Admission {
    base: Arc<Base>,
    writeback: Arc<Writeback>,
    commit: Arc<Commit>,
}

impl Admission {
    pub fn new(writeback: Arc<Writeback>, commit: Arc<Commit>) -> Self {
        Self { base: writeback.files.base.clone(), writeback, commit }
    }

    /// Admits a write to a file: the checks of any change, then throttling by the file's writeback context.
    pub fn admit_write(&self, ino: Ino) -> Result<Arc<Inode>> {
        self.admit(true)?;
        let inode = self.writeback.files.inode(ino)?;
        self.writeback.hint_large(&inode);
        self.writeback.bound_share(&inode)?;
        Ok(inode)
    }

    /// Every change calls this before it takes a lock. On success there is room for the change, or no room
    /// can be made.
    pub fn admit_change(&self) -> Result<()> {
        self.admit(false)
    }

    /// `writes`: the change needs blocks that it does not reserve.
    fn admit(&self, writes: bool) -> Result<()> {
        self.base.health.check_writable()?;
        self.commit.activity.note();
        self.writeback.hint_writeback();
        self.bound_memory()?;
        self.commit.bound_journal()?;
        match self.writeback.keep_room() {
            Err(Error::NoSpace) if self.writeback.files.room.admits_without_room(writes) => Ok(()),
            other => other,
        }
    }

    /// Whether a checkpoint must write dirty metadata before the next change.
    fn is_metadata_full(&self) -> bool {
        let room = (self.base.opts.cache_bytes as u64 / CACHE_PER_NAT).clamp(NAT_DIRTY_MIN, NAT_DIRTY_MAX);
        let nat_max = (u64::from(self.base.geo.max_nid()) * NAT_DIRTY_PERCENT / 100).min(room);
        self.commit.dirty_metadata() > self.base.cache_blocks() / 2
            || self.writeback.files.nodes.nat.changed() as u64 > nat_max
    }

    /// Keeps the caches within the limit: evicts clean entries and flushes dirty ones.
    fn bound_memory(&self) -> Result<()> {
        self.writeback.bound_dirty()?;
        if self.base.opts.background && self.commit.is_metadata_due() {
            self.commit.signal.wake();
        }
        if self.is_metadata_full() {
            self.commit.checkpoint_while(|| self.is_metadata_full())?;
        }
        self.evict();
        Ok(())
    }

    /// Every operation that changes nothing but may load an inode calls this before it takes a lock.
    pub fn admit_read(&self) {
        self.evict();
    }

    /// Limit for evictable memory: the cache less the kernel's references, but at least a quarter of the cache.
    fn evictable_limit(&self) -> u64 {
        let cache = self.base.opts.cache_bytes as u64;
        cache.saturating_sub(self.base.mem.references.get()).max(cache / 4)
    }

    /// Above the limit, evicts a bounded number of entries: clean nodes, then inodes with their node blocks, and
    /// directory pages.
    fn evict(&self) {
        let limit = self.evictable_limit();
        let over = self.base.mem.bytes().saturating_sub(limit);
        if over == 0 {
            return;
        }
        let max = (over / BLOCK_SIZE as u64).clamp(EVICT_MIN, EVICT_MAX) as usize;
        self.writeback.files.nodes.cache.evict(max);
        if self.base.mem.bytes() > limit {
            let urgent = over > self.base.opts.cache_bytes as u64 / URGENT;
            self.writeback
                .files
                .inodes
                .evict(max, urgent)
                .into_iter()
                .for_each(|ino| self.writeback.files.nodes.cache.evict_one(ino.nid()));
        }
    }
}
