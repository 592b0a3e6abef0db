//! Statistics of fsyncs and their phases.
use super::{Histogram, Recorded, Snapshot};
use std::sync::atomic::{AtomicU64, Ordering};

/// Reason for which an fsync took a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpReason {
    /// A directory, symlink or special file.
    NotRegular,
    /// The file is compressed.
    Compressed,
    /// Renamed or linked since the last checkpoint.
    Renamed,
    /// Lost a node since the last checkpoint.
    NodeFreed,
    /// Replaying all logged nodes could exceed the volume.
    NoRoom,
    /// The warm node log does not continue at the address that the last block of the chain names.
    ChainBroken,
    /// A new file with several names.
    Links,
    /// A new file whose inode does not name its parent.
    LostParent,
    /// A new file in a directory that is not in the last checkpoint.
    NewParent,
    /// A new file in a directory that lost a name (`fsync_mode=strict`).
    ParentChanged,
    /// A new file after a directory was renamed.
    DirRenamed,
    /// A new file under a name that another inode or a directory gave up.
    NameVacated,
    /// The file lost one of its names.
    Unlinked,
    /// The mount takes a checkpoint for each fsync.
    Fastboot,
}

const REASONS: [(CpReason, &str); 14] = [
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
    (CpReason::Fastboot, "fsync_cp_fastboot"),
];

/// Counters and histograms since mount. Times are in nanoseconds.
#[derive(Debug, Default)]
pub struct FsyncStats {
    /// Admission, and writing the file's dirty pages.
    pub data: Histogram,
    /// Finding the file's dirty nodes; part of `node`.
    pub lookup: Histogram,
    /// Deciding, finding, placing and writing nodes, including the wait for other fsyncs.
    pub node: Histogram,
    /// Waiting for device flushes.
    pub flush: Histogram,
    /// Checkpoints taken instead of writing nodes.
    pub checkpoint: Histogram,
    /// Nanoseconds of whole calls.
    pub total: Histogram,
    /// Dirty nodes examined.
    pub searched: AtomicU64,
    /// Nodes written.
    pub written: AtomicU64,
    /// Dirty nodes of all files at each search, with `fsync_lookup=shadow`.
    pub would_search: AtomicU64,
    reasons: [AtomicU64; REASONS.len()],
}

impl FsyncStats {
    pub(crate) fn checkpointed(&self, why: CpReason) {
        self.reasons[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of fsyncs that took a checkpoint for this reason.
    #[must_use]
    pub fn checkpoints(&self, why: CpReason) -> u64 {
        self.reasons[why as usize].load(Ordering::Relaxed)
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
