//! Making room before an operation takes its first lock: memory, free sections, checkpoints that are due.
use super::Volume;
use crate::error::Result;
use crate::options::AllocMode;
use segno_format::BLOCK_SIZE;

/// Changed NAT entries above this part of all nids make a checkpoint due, as in F2FS.
const NAT_DIRTY_PERCENT: u64 = 10;
/// But never wait for more than this many (each is about 40 bytes of memory).
const NAT_DIRTY_MAX: u64 = 400_000;
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
        let nat_max = (u64::from(self.geo.max_nid()) * NAT_DIRTY_PERCENT / 100).min(NAT_DIRTY_MAX);
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
        let limit = self.cache_blocks();
        self.bound_dirty()?;
        if self.opts.background && self.is_metadata_due() {
            self.signal.wake();
        }
        if self.is_metadata_full() {
            self.checkpoint_while(|| self.is_metadata_full())?;
        }
        if self.mem.nodes.get() + self.mem.pages.get() > limit {
            self.evict(limit);
        }
        Ok(())
    }

    /// The same for who only looks: evicts what is clean once it is more than half of what there is.
    pub(crate) fn bound_clean(&self) {
        let (limit, cached) = (self.cache_blocks(), self.mem.nodes.get() + self.mem.pages.get());
        let dirty = self.dirty_metadata() + self.mem.dirty_data.get();
        if cached > limit && dirty < cached / 2 {
            self.evict(limit);
        }
    }

    fn evict(&self, limit: u64) {
        self.inodes.shrink(&self.mem);
        self.nodes.shrink(limit / 2);
    }
}
