//! How fsync finds the dirty nodes of its file.
use super::phases::Phases;
use crate::node::NodeFrame;
use crate::options::FsyncLookup;
use crate::stat;
use crate::volume::Volume;
use segno_format::Ino;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Volume {
    /// Changes how fsync finds dirty nodes; what it writes stays the same.
    pub fn set_fsync_lookup(&self, lookup: FsyncLookup) {
        // Whoever marks or writes nodes is inside the gate.
        let _closed = self.gate.close();
        self.nodes.dirty.keep_global(lookup == FsyncLookup::Global);
        self.fsync_lookup.store(lookup as u8, Ordering::Release);
    }

    /// How fsync finds dirty nodes.
    #[must_use]
    pub fn fsync_lookup(&self) -> FsyncLookup {
        let number = self.fsync_lookup.load(Ordering::Acquire);
        FsyncLookup::ALL.into_iter().find(|l| *l as u8 == number).unwrap_or_default()
    }

    /// The changed direct nodes of an inode. `again` tells that this fsync has searched already: the kernel searches
    /// once, so what was dirtied since is always taken from the list.
    pub(super) fn dirty_direct(&self, ino: Ino, again: bool, phases: &mut Phases) -> Vec<Arc<NodeFrame>> {
        let (dirty, stats) = (&self.nodes.dirty, &self.stats.fsync);
        let begun = Instant::now();
        let mut searched = 0;
        let found = match self.fsync_lookup() {
            FsyncLookup::Global if !again => dirty.global.search(ino, &mut searched),
            lookup => {
                if lookup == FsyncLookup::Shadow && !again {
                    stat::add(&stats.would_search, self.mem.dirty_nodes.get());
                }
                let found = dirty.direct_of(ino);
                searched += found.len() as u64;
                found
            }
        };
        phases.lookup += begun.elapsed().as_nanos() as u64;
        stat::add(&stats.searched, searched);
        found
    }
}
