//! What fsyncs did and how long each of their phases took.
use super::{Histogram, Recorded, Snapshot};
use std::sync::atomic::{AtomicU64, Ordering};

/// Why an fsync was done by a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpReason {
    /// A directory, symlink or special file.
    NotRegular,
    Compressed,
    /// Renamed, or given another name, since the last checkpoint.
    Renamed,
    /// Lost a node since the last checkpoint.
    NodeFreed,
    /// Replaying all that was logged could exceed the volume.
    NoRoom,
    /// An address of the log was given out and not written.
    ChainBroken,
    /// A new file with several names.
    Links,
    /// A new file whose place in the tree its inode does not know.
    LostParent,
    /// A new file in a directory that the last checkpoint lacks.
    NewParent,
    /// A new file in a directory that lost a name (`fsync_mode=strict`).
    ParentChanged,
    /// A new file after a directory was renamed.
    DirRenamed,
    /// A new file under a name that was moved away, or was a directory's.
    NameVacated,
    /// It lost one of its names.
    Unlinked,
}

const REASONS: [(CpReason, &str); 13] = [
    (CpReason::NotRegular, "fsync_cp_not_regular"),
    (CpReason::Compressed, "fsync_cp_compressed"),
    (CpReason::Renamed, "fsync_cp_renamed"),
    (CpReason::NodeFreed, "fsync_cp_node_freed"),
    (CpReason::NoRoom, "fsync_cp_no_room"),
    (CpReason::ChainBroken, "fsync_cp_chain_broken"),
    (CpReason::Links, "fsync_cp_links"),
    (CpReason::LostParent, "fsync_cp_lost_parent"),
    (CpReason::NewParent, "fsync_cp_new_parent"),
    (CpReason::ParentChanged, "fsync_cp_parent_changed"),
    (CpReason::DirRenamed, "fsync_cp_dir_renamed"),
    (CpReason::NameVacated, "fsync_cp_name_vacated"),
    (CpReason::Unlinked, "fsync_cp_unlinked"),
];

/// Counters and histograms since mount. Times are in nanoseconds.
#[derive(Debug, Default)]
pub struct FsyncStats {
    /// Making room, and writing the file's dirty pages.
    pub data: Histogram,
    /// Finding the file's dirty nodes; part of `node`.
    pub lookup: Histogram,
    /// Deciding, finding, placing and writing nodes, with the wait for those who do the same.
    pub node: Histogram,
    /// Waiting for device flushes.
    pub flush: Histogram,
    /// Checkpoints in place of nodes.
    pub checkpoint: Histogram,
    pub total: Histogram,
    /// Dirty nodes looked at.
    pub searched: AtomicU64,
    /// Nodes written.
    pub written: AtomicU64,
    /// Dirty nodes of all files at the moment of each search, with `fsync_lookup=shadow`.
    pub would_search: AtomicU64,
    reasons: [AtomicU64; REASONS.len()],
}

impl FsyncStats {
    pub(crate) fn checkpointed(&self, why: CpReason) {
        if let Some(n) = self.reasons.get(why as usize) {
            n.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many fsyncs were done by a checkpoint for this reason.
    #[must_use]
    pub fn checkpoints(&self, why: CpReason) -> u64 {
        self.reasons.get(why as usize).map_or(0, |n| n.load(Ordering::Relaxed))
    }

    pub(super) fn add_to(&self, out: &mut Snapshot) {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        out.extend([
            ("fsync_nodes_searched", get(&self.searched)),
            ("fsync_nodes_written", get(&self.written)),
            ("fsync_nodes_would_search", get(&self.would_search)),
        ]);
        out.extend(REASONS.map(|(why, name)| (name, self.checkpoints(why))));
        for (names, times) in PHASES.iter().zip(self.phases()) {
            let figures =
                [times.count(), times.mean() as u64, times.quantile(0.5), times.quantile(0.99), times.max()];
            out.extend(names.iter().copied().zip(figures));
        }
    }

    fn phases(&self) -> [Recorded; 6] {
        [&self.data, &self.lookup, &self.node, &self.flush, &self.checkpoint, &self.total]
            .map(Histogram::recorded)
    }
}

macro_rules! names {
    ($($phase:literal),*) => {[$([
        concat!("fsync_", $phase, "_count"),
        concat!("fsync_", $phase, "_ns_avg"),
        concat!("fsync_", $phase, "_ns_p50"),
        concat!("fsync_", $phase, "_ns_p99"),
        concat!("fsync_", $phase, "_ns_max"),
    ]),*]};
}
const PHASES: [[&str; 5]; 6] = names!["data", "lookup", "node", "flush", "checkpoint", "total"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter_and_name() {
        let stats = FsyncStats::default();
        for (i, (why, _)) in REASONS.into_iter().enumerate() {
            assert_eq!(why as usize, i);
            (0..=i).for_each(|_| stats.checkpointed(why));
        }
        stats.flush.record(7);
        let mut out = Snapshot::new();
        stats.add_to(&mut out);
        for (i, (why, name)) in REASONS.into_iter().enumerate() {
            assert_eq!(stats.checkpoints(why), i as u64 + 1);
            assert!(out.contains(&(name, i as u64 + 1)), "{name}");
        }
        assert!(out.contains(&("fsync_flush_count", 1)) && out.contains(&("fsync_flush_ns_p50", 7)));
    }
}
