//! State of the journal of a mounted volume.
use super::queue::CommitQueue;
use crate::lock::{Mutex, rank};
use crate::notice::{Notice, Observer};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::transaction::Taken;
use segno_device::Operation;
use segno_journal::Journal;

/// Background steps after which a checkpoint is due. Bounds recovery time, and frees deleted blocks.
const STEPS: u32 = 30;
/// Pending records that end an epoch, if the ring is large enough.
const COMMIT_BYTES: u64 = 8 << 20;
/// Upper bound on one epoch, as a fraction of the ring.
const COMMIT_DIVISOR: u64 = 8;

/// The journal and its limits.
#[derive(Debug)]
pub struct MountedJournal {
    pub ring: Journal,
    /// The journal is on the volume's own device.
    pub shared: bool,
    observer: Observer,
    /// Serializes commits.
    pub queue: CommitQueue,
    /// Held by a commit, and while a boundary is drawn.
    pub commits: Mutex<Commits, { rank::COMMIT }>,
    /// Nothing more is appended: the device failed, or the journal was retired.
    failed: AtomicBool,
    /// Bytes of the ring in use at the last commit or checkpoint.
    used: AtomicU64,
    size: u64,
    /// Background steps since the last checkpoint.
    steps: AtomicU32,
}

/// State of commits.
#[derive(Debug, Default)]
pub struct Commits {
    /// Epochs up to this one are durable.
    pub newest: u64,
    /// The newest epoch that was taken and not written: only a checkpoint makes it durable.
    pub broken: Option<u64>,
    /// Whether a group was written since the newest boundary.
    pub since_boundary: bool,
    /// Records that the checkpoint in progress covers and the journal does not have.
    pub covered: Option<Taken>,
}

impl MountedJournal {
    pub fn new(journal: Journal, shared: bool, observer: Observer) -> Self {
        let usage = journal.usage();
        Self {
            ring: journal,
            shared,
            observer,
            queue: CommitQueue::default(),
            commits: Mutex::default(),
            failed: AtomicBool::new(false),
            used: AtomicU64::new(usage.used),
            size: usage.size,
            steps: AtomicU32::new(0),
        }
    }

    pub fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether the error also concerns the volume's device: a failed flush may have lost the volume's data.
    pub fn concerns_volume(&self, why: &segno_journal::Error) -> bool {
        self.shared && matches!(why, segno_journal::Error::Io { op: Operation::Flush, .. })
    }

    /// Disables the journal after a failure, with one notice.
    pub fn disable(&self, why: &dyn std::fmt::Display) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            self.observer.notify(&Notice::JournalFailed(why.to_string()));
        }
    }

    /// Disables the journal on request.
    pub fn retire(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Records how full the ring is.
    pub fn note_usage(&self) {
        self.used.store(self.ring.usage().used, Ordering::Relaxed);
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Releases the records that the checkpoint covers: at once if the ring is half full, else with the next flush.
    pub fn reclaim(&self) -> segno_journal::Result<()> {
        self.ring.reclaim()?;
        self.note_usage();
        if self.is_half_full() { self.ring.flush() } else { Ok(()) }
    }

    /// Restarts the interval: a checkpoint began to cover all records.
    pub fn checkpointed(&self) {
        self.note_usage();
        self.steps.store(0, Ordering::Relaxed);
    }

    /// Whether a background step should end with a checkpoint.
    pub fn is_checkpoint_due(&self) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed) >= STEPS || self.is_half_full()
    }

    /// Whether a checkpoint should free space soon.
    pub fn is_half_full(&self) -> bool {
        self.used() > self.size / 2
    }

    /// Whether a checkpoint must free space before anything else is recorded.
    pub fn is_full(&self) -> bool {
        self.used() > self.size / 10 * 9
    }

    /// Pending records that make a commit due.
    pub fn commit_bytes(&self) -> u64 {
        COMMIT_BYTES.min(self.size / COMMIT_DIVISOR)
    }
}
