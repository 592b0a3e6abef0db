//! Settings and statistics of a mounted volume.
use crate::error::Result;
use crate::gc::{Mode as GcMode, TrimRange};
use crate::options::ContextSetting;
use crate::options::FsyncLookup;
use crate::volume::Volume;

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
        self.writeback.contexts.describe()
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

    /// Discards free segments that lie wholly in the range, and returns their bytes. Writes a checkpoint first, which
    /// makes freed blocks available. Stops early if the logs may soon need the space.
    pub fn trim(&self, range: TrimRange) -> Result<u64> {
        self.gc.trim(range)
    }
}
