//! How fsync finds the dirty nodes of its file.
use super::phases::Phases;
use crate::commit::Commit;
use crate::health::invariant;
use crate::nodes::NodeFrame;
use crate::options::FsyncLookup;
use crate::stat;
use segno_format::Ino;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Commit {
    /// Sets how fsync finds dirty nodes; it writes the same blocks either way.
    pub fn set_fsync_lookup(&self, lookup: FsyncLookup) {
        // Nodes are marked dirty and written only inside the gate.
        let _closed = self.base.tx.close_gate();
        self.nodes.cache.dirty.keep_global(lookup == FsyncLookup::Global);
        self.fsync_lookup.store(lookup as u8, Ordering::Release);
    }

    /// How fsync finds dirty nodes.
    #[must_use]
    pub fn fsync_lookup(&self) -> FsyncLookup {
        let number = self.fsync_lookup.load(Ordering::Acquire);
        FsyncLookup::ALL.into_iter().find(|l| *l as u8 == number).unwrap_or_default()
    }

    /// The dirty direct nodes of an inode.
    pub fn dirty_direct(&self, ino: Ino, phases: &mut Phases) -> Vec<Arc<NodeFrame>> {
        let (dirty, stats) = (&self.nodes.cache.dirty, &self.base.stats.fsync);
        let begun = Instant::now();
        let mut searched = 0;
        let found = match self.fsync_lookup() {
            FsyncLookup::Global => dirty.global.search(ino, &mut searched),
            lookup => {
                if lookup == FsyncLookup::Shadow {
                    stat::add(&stats.would_search, self.base.mem.dirty_nodes.get());
                }
                let found = dirty.direct_of(ino);
                searched += found.len() as u64;
                found
            }
        };
        let own = found.iter().all(|f| f.ino == ino);
        invariant!(self.base.health, own, "fsync found a node of another file", else return Vec::new());
        phases.lookup += begun.elapsed().as_nanos() as u64;
        stat::add(&stats.searched, searched);
        found
    }
}
