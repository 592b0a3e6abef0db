//! Making room before an operation takes its first lock: memory, free sections, checkpoints that are due.
use super::Volume;
use crate::error::Result;
use crate::options::AllocMode;
use segno_format::BLOCK_SIZE;

/// Changed NAT entries above this part of all nids make a checkpoint due, as in F2FS.
const NAT_DIRTY_PERCENT: u64 = 10;
/// But never wait for more than this many, nor for more than there is room for: while a checkpoint takes them, each has
/// about 100 bytes of memory.
const NAT_DIRTY_MAX: u64 = 400_000;
const NAT_DIRTY_MIN: u64 = 1000;
const CACHE_PER_NAT: u64 = 256;
/// Entries evicted at a time: a few for each that an operation adds.
const EVICT_MIN: u64 = 32;
const EVICT_MAX: u64 = 1024;
/// So far above the limit, as a part of the cache, eviction waits for directories that are in use: one that threads
/// use without a pause would grow for ever.
const URGENT: u64 = 8;
/// Part of the cache above which changed metadata is written in the background.
const METADATA_DUE: u64 = 6;

impl Volume {
    /// Called by every change before it takes a lock. Afterwards there is room for the change, or none to be made.
    pub(crate) fn make_room(&self) -> Result<()> {
        self.check_writable()?;
        self.activity.note();
        self.hint_writeback();
        self.bound_memory()?;
        self.bound_journal()?;
        if self.short_of_sections() {
            // What is left of their segments is for everybody now.
            self.segs.close_streams();
            // As long as there is room for them: written pages leave holes, which cleaning can gather.
            if self.opts.mode == AllocMode::Lfs
                && self.mem.dirty_data.get() >= self.geo.blocks_per_sec().into()
            {
                self.flush_all_data()?;
            }
            self.clean_foreground()?;
        }
        Ok(())
    }

    /// Blocks that the cache may hold.
    pub(crate) fn cache_blocks(&self) -> u64 {
        (self.opts.cache_bytes / BLOCK_SIZE) as u64
    }

    /// Whether changed metadata must be written before anything else changes.
    fn is_metadata_full(&self) -> bool {
        let room = (self.opts.cache_bytes as u64 / CACHE_PER_NAT).clamp(NAT_DIRTY_MIN, NAT_DIRTY_MAX);
        let nat_max = (u64::from(self.geo.max_nid()) * NAT_DIRTY_PERCENT / 100).min(room);
        self.dirty_metadata() > self.cache_blocks() / 2 || self.nat.changed() as u64 > nat_max
    }

    /// Whether it should be: early enough that nobody has to wait, where operations go on meanwhile.
    pub(crate) fn is_metadata_due(&self) -> bool {
        self.goes_on()
            && self.dirty_metadata() > self.cache_blocks() / METADATA_DUE
            && !self.under_way.is_on()
    }

    fn dirty_metadata(&self) -> u64 {
        self.mem.dirty_nodes.get() + self.mem.dirty_dents.get()
    }

    /// Keeps caches within the limit: evict what is clean, write out what is dirty.
    fn bound_memory(&self) -> Result<()> {
        self.bound_dirty()?;
        if self.opts.background && self.is_metadata_due() {
            self.signal.wake();
        }
        if self.is_metadata_full() {
            self.checkpoint_while(|| self.is_metadata_full())?;
        }
        self.evict();
        Ok(())
    }

    /// Called by every operation that changes nothing and may load an inode, before it takes a lock. Evicts, unless so much is
    /// dirty that there is little to find.
    pub(crate) fn bound_clean(&self) {
        let dirty = self.dirty_metadata() + self.mem.dirty_data.get();
        if dirty < self.cache_blocks() / 2 {
            self.evict();
        }
    }

    /// Bytes that may be taken by what eviction can give back: the cache without the kernel's references, but never less
    /// than a quarter of it.
    fn evictable_limit(&self) -> u64 {
        let cache = self.opts.cache_bytes as u64;
        cache.saturating_sub(self.holds.bytes()).max(cache / 4)
    }

    /// What counts against the limit.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.mem.bytes() + self.holds.bytes()
    }

    /// Above the limit, takes a step towards it: clean nodes first, then inodes with their node blocks, and pages of
    /// directories.
    fn evict(&self) {
        let limit = self.evictable_limit();
        let over = self.mem.bytes().saturating_sub(limit);
        if over == 0 {
            return;
        }
        let max = (over / BLOCK_SIZE as u64).clamp(EVICT_MIN, EVICT_MAX) as usize;
        self.nodes.evict(max);
        if self.mem.bytes() > limit {
            let urgent = over > self.opts.cache_bytes as u64 / URGENT;
            self.inodes.evict(max, urgent).into_iter().for_each(|ino| self.nodes.evict_one(ino));
        }
    }
}
