//! Durability: checkpoints, fsync, and the journal in front of checkpoints (docs/design/journal.md).
mod activity;
mod checkpoint;
mod discard;
mod fsync;
mod journal;
mod signal;

pub use activity::Activity;
pub use checkpoint::{CheckpointReason, CpState, read_pack};
pub use discard::AT_A_TIME;
pub use journal::{Found, MountedJournal};
pub use signal::{Signal, Wake};

use crate::base::Base;
use crate::files::Files;
use crate::lock::{Mutex, rank};
use crate::nodes::Nodes;
use crate::sync::atomic::AtomicU8;
use crate::writeback::Writeback;
use checkpoint::InProgress;
use discard::Undiscarded;
use std::sync::{Arc, OnceLock};

/// Fraction of the cache above which dirty metadata is written in the background.
const METADATA_DUE: u64 = 6;

/// Makes changes durable.
pub struct Commit {
    base: Arc<Base>,
    nodes: Arc<Nodes>,
    files: Arc<Files>,
    writeback: Arc<Writeback>,
    /// The journal, if the volume has one. Set once, at mount.
    pub journal: OnceLock<MountedJournal>,
    pub in_progress: InProgress,
    /// Serializes checkpoints and holds the state of the current one.
    pub cp: Mutex<CpState, { rank::CHECKPOINT }>,
    /// An [`crate::options::FsyncLookup`]; may change while mounted.
    fsync_lookup: AtomicU8,
    pub undiscarded: Undiscarded,
    /// Whether everything that is free in the mounted checkpoint was discarded or never written.
    was_trimmed: bool,
    /// Wakes the background thread.
    pub signal: Arc<Signal>,
    pub activity: Activity,
}

impl Commit {
    /// `cp` is the mounted checkpoint.
    pub fn new(writeback: Arc<Writeback>, cp: CpState) -> Self {
        let files = writeback.files.clone();
        Self {
            base: files.base.clone(),
            nodes: files.nodes.clone(),
            files,
            writeback,
            journal: OnceLock::new(),
            in_progress: InProgress::new(cp.version()),
            was_trimmed: cp.is_trimmed(),
            cp: Mutex::new(cp),
            fsync_lookup: AtomicU8::new(0),
            undiscarded: Undiscarded::default(),
            signal: Arc::default(),
            activity: Activity::default(),
        }
    }

    /// Whether dirty metadata should be written. With concurrent checkpoints this is early enough that no operation
    /// waits.
    pub fn is_metadata_due(&self) -> bool {
        self.is_concurrent()
            && self.dirty_metadata() > self.base.cache_blocks() / METADATA_DUE
            && !self.in_progress.is_on()
    }

    pub fn dirty_metadata(&self) -> u64 {
        self.base.mem.dirty_nodes.get() + self.base.mem.dirty_dents.get()
    }
}
