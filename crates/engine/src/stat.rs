//! Counters of writes and other events, the basis of write amplification.
mod fsync;
mod histogram;
mod journal;

pub use fsync::{CpReason, FsyncStats};
pub use histogram::{Histogram, Recorded};
pub(crate) use journal::timed;
pub use journal::{JournalStats, SAMPLED, Sampled};
use std::sync::atomic::{AtomicU64, Ordering};

/// Monotonic counters since mount, in blocks or events.
#[derive(Debug, Default)]
pub struct Stats {
    /// Bytes written by callers.
    pub user_bytes: AtomicU64,
    /// Data blocks written for callers.
    pub data_blocks: AtomicU64,
    /// Data blocks written because cleaning moved them.
    pub gc_data_blocks: AtomicU64,
    /// Directory blocks.
    pub dent_blocks: AtomicU64,
    /// Node blocks.
    pub node_blocks: AtomicU64,
    /// Node blocks that cleaning made dirty.
    pub gc_node_blocks: AtomicU64,
    /// NAT, SIT, SSA and checkpoint pack blocks.
    pub meta_blocks: AtomicU64,
    /// Checkpoints written.
    pub checkpoints: AtomicU64,
    /// Nanoseconds spent in checkpoints.
    pub checkpoint_ns: AtomicU64,
    /// Nanoseconds each checkpoint blocked operations, including the wait to quiesce.
    pub checkpoint_blocked: Histogram,
    /// Nodes written ahead of the boundary of the checkpoint that has them.
    pub nodes_ahead: AtomicU64,
    /// Calls of fsync.
    pub fsyncs: AtomicU64,
    /// Of these, served by the fsync of another caller.
    pub fsyncs_shared: AtomicU64,
    /// fsyncs that needed a checkpoint.
    pub fsync_checkpoints: AtomicU64,
    /// Runs of foreground cleaning.
    pub gc_foreground: AtomicU64,
    /// Sections that background cleaning tried.
    pub gc_background: AtomicU64,
    /// Blocks moved while an operation waited for space, by its own cleaning or another's.
    pub gc_stall: Histogram,
    /// Sections that cleaning emptied.
    pub gc_sections: AtomicU64,
    /// Segments discarded, or reset with their zone.
    pub discards: AtomicU64,
    /// Epochs written to the journal, and their bytes.
    pub journal_commits: AtomicU64,
    /// Bytes written to the journal.
    pub journal_bytes: AtomicU64,
    /// Inodes and epochs replayed at mount.
    pub journal_replayed: AtomicU64,
    /// Times of commits.
    pub journal: JournalStats,
    /// Times and nodes of fsyncs.
    pub fsync: FsyncStats,
}

/// Values of the counters at one moment, with their names for `--json`.
pub type Snapshot = Vec<(&'static str, u64)>;

impl Stats {
    /// The current values.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let (blocked, stall) = (self.checkpoint_blocked.recorded(), self.gc_stall.recorded());
        let mut out = vec![
            ("user_bytes", get(&self.user_bytes)),
            ("data_blocks", get(&self.data_blocks)),
            ("gc_data_blocks", get(&self.gc_data_blocks)),
            ("dent_blocks", get(&self.dent_blocks)),
            ("node_blocks", get(&self.node_blocks)),
            ("gc_node_blocks", get(&self.gc_node_blocks)),
            ("meta_blocks", get(&self.meta_blocks)),
            ("checkpoints", get(&self.checkpoints)),
            ("checkpoint_ns", get(&self.checkpoint_ns)),
            ("checkpoint_blocked_ns_p50", blocked.quantile(0.5)),
            ("checkpoint_blocked_ns_p99", blocked.quantile(0.99)),
            ("checkpoint_blocked_ns_max", blocked.max()),
            ("nodes_ahead", get(&self.nodes_ahead)),
            ("fsyncs", get(&self.fsyncs)),
            ("fsyncs_shared", get(&self.fsyncs_shared)),
            ("fsync_checkpoints", get(&self.fsync_checkpoints)),
            ("gc_foreground", get(&self.gc_foreground)),
            ("gc_background", get(&self.gc_background)),
            ("gc_sections", get(&self.gc_sections)),
            ("gc_stalls", stall.count()),
            ("gc_stall_blocks_p50", stall.quantile(0.5)),
            ("gc_stall_blocks_p99", stall.quantile(0.99)),
            ("gc_stall_blocks_max", stall.max()),
            ("discards", get(&self.discards)),
            ("journal_commits", get(&self.journal_commits)),
            ("journal_bytes", get(&self.journal_bytes)),
            ("journal_replayed", get(&self.journal_replayed)),
        ];
        self.journal.add_to(&mut out);
        self.fsync.add_to(&mut out);
        out
    }
}

impl Stats {
    /// Number of blocks moved by cleaning so far.
    pub(crate) fn moved(&self) -> u64 {
        self.gc_data_blocks.load(Ordering::Relaxed) + self.gc_node_blocks.load(Ordering::Relaxed)
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
