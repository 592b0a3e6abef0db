//! Settings and statistics of a mounted volume.
use crate::error::Result;
use crate::gc::{Mode as GcMode, TrimRange};
use crate::options::ContextSetting;
use crate::options::FsyncLookup;
use crate::volume::Volume;
use segno_format::Ino;

impl Volume {
    /// From now on a cache above holds written data. It sends changed blocks in any order, and sets mtime and ctime of
    /// regular files with [`Volume::setattr`]; changes of content leave them. To be called before files are changed.
    pub fn set_cached_writes(&self) {
        self.base.set_cached();
    }

    /// Whether [`Volume::set_cached_writes`] was called.
    #[must_use]
    pub fn has_cached_writes(&self) -> bool {
        self.base.is_cached()
    }

    /// Sets the number of writeback contexts. Writers continue meanwhile.
    pub fn set_contexts(&self, setting: ContextSetting) {
        self.writeback.set(setting);
    }

    /// The setting, the current number of contexts, and the limit that determines it.
    #[must_use]
    pub fn contexts(&self) -> (ContextSetting, u32, &'static str) {
        self.writeback.describe()
    }

    /// Dirty pages of the files of each context.
    #[must_use]
    pub fn context_loads(&self) -> Vec<u64> {
        self.writeback.contexts.contexts().iter().map(|c| c.dirty()).collect()
    }

    /// Lengths of the free extents in bytes, longest first: a lower bound on the extents of new files.
    #[must_use]
    pub fn free_intervals(&self) -> Vec<u64> {
        let section = u64::from(self.base.geo.blocks_per_sec()) * segno_format::BLOCK_SIZE as u64;
        self.space.with_table(|t| t.free_intervals()).into_iter().map(|n| u64::from(n) * section).collect()
    }

    /// Flushes all pages that are dirty now, and waits for pages in flight. An error of one file does not stop the
    /// others; the first error is returned.
    pub fn flush_all_data(&self) -> Result<()> {
        self.writeback.flush_all_data()
    }

    /// Writes back up to `most` dirty pages of a file, in file order from page `from` on, and returns the page behind
    /// the last one; `None` if no page from there on is dirty. Of a file that grows, the dirty pages before go along.
    pub fn write_back(&self, ino: Ino, from: u64, most: usize) -> Result<Option<u64>> {
        let inode = self.files.inode(ino)?;
        let last = inode.pages.lock().dirty_in(from..u64::MAX, most).last().copied();
        let end = last.map(|page| page.saturating_add(1));
        end.map_or(Ok(0), |end| self.writeback.flush_inode(&inode, from..end)).map(|_| end)
    }

    /// Sets how fsync finds dirty nodes; it writes the same blocks either way.
    pub fn set_fsync_lookup(&self, lookup: FsyncLookup) {
        self.commit.set_fsync_lookup(lookup);
    }

    /// How fsync finds dirty nodes.
    #[must_use]
    pub fn fsync_lookup(&self) -> FsyncLookup {
        self.commit.fsync_lookup()
    }

    /// The background cleaning mode.
    #[must_use]
    pub fn gc_mode(&self) -> GcMode {
        self.gc.mode()
    }

    /// Sets the mode, from the next step on.
    pub fn set_gc_mode(&self, mode: GcMode) {
        self.gc.set_mode(mode);
    }

    /// Cleans a bounded number of worthwhile sections and commits, so that they are free on return. Returns their
    /// number; 0 means that none is left. Operations continue meanwhile.
    pub fn clean_now(&self) -> Result<u32> {
        self.gc.clean_now()
    }

    /// Cleans one section in the background, the best by age and fill. Returns false if none is worth it.
    pub fn clean_once(&self) -> Result<bool> {
        self.gc.clean_once()
    }

    /// Discards free segments that lie wholly in the range, and returns their bytes. Writes a checkpoint first, which
    /// makes freed blocks available. Stops early if the logs may soon need the space.
    pub fn trim(&self, range: TrimRange) -> Result<u64> {
        self.gc.trim(range)
    }
}
