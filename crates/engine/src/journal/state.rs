//! The journal that a mounted volume goes on with.
use super::recorder::Taken;
use super::turns::Turns;
use crate::lock::{Mutex, rank};
use crate::notice::{Notice, Observer};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use segno_journal::Journal;

/// Background steps after which a checkpoint is due: recovery is to stay short, and what was freed is to be used.
const STEPS: u32 = 30;
/// Pending records at which an epoch is ended, if the ring is large enough.
const COMMIT_BYTES: u64 = 8 << 20;
/// Part of the ring that one epoch should take at most.
const COMMIT_PART: u64 = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct Log {
    pub journal: Journal,
    /// It is on the volume's own device.
    shared: bool,
    observer: Observer,
    /// One commit at a time.
    pub turns: Turns,
    /// Held by a commit, and while a boundary is drawn.
    pub commits: Mutex<Commits, { rank::COMMIT }>,
    /// Nothing is appended any more: its device failed, or it is not wanted.
    failed: AtomicBool,
    /// Bytes of the ring in use, as of the last commit or checkpoint.
    used: AtomicU64,
    size: u64,
    /// Background steps since the last checkpoint.
    steps: AtomicU32,
}

/// What was committed.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// Everything of epochs up to this one is durable.
    pub newest: u64,
    /// The newest epoch that was taken and not written: only a checkpoint makes it durable.
    pub broken: Option<u64>,
    /// Whether a group was written since the newest boundary was drawn.
    pub since_boundary: bool,
    /// What the checkpoint on its way covers, if it is not in the journal.
    pub covered: Option<Taken>,
}

impl Log {
    pub fn new(journal: Journal, shared: bool, observer: Observer) -> Self {
        let usage = journal.usage();
        Self {
            journal,
            shared,
            observer,
            turns: Turns::default(),
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

    /// Whether a flush of the journal is one of the volume.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether the failure is one of the volume's device too: a flush that failed may have lost what is not the journal's.
    pub fn concerns_volume(&self, why: &segno_journal::Error) -> bool {
        self.shared && matches!(why, segno_journal::Error::Io { op: "flush", .. })
    }

    /// Goes on without; says so once.
    pub fn give_up(&self, why: &dyn std::fmt::Display) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            self.observer.tell(&Notice::JournalFailed(why.to_string()));
        }
    }

    /// Goes on without, as was asked for.
    pub fn retire(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Looks how full the ring is.
    pub fn note_usage(&self) {
        self.used.store(self.journal.usage().used, Ordering::Relaxed);
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Gives back what the checkpoint covers. Of a ring that is half full, at once; else with the next flush.
    pub fn reclaim(&self) -> segno_journal::Result<()> {
        self.journal.reclaim()?;
        self.note_usage();
        if self.is_half_full() { self.journal.flush() } else { Ok(()) }
    }

    /// A checkpoint began to make everything else superfluous.
    pub fn checkpointed(&self) {
        self.note_usage();
        self.steps.store(0, Ordering::Relaxed);
    }

    /// Whether a background step should end with a checkpoint.
    pub fn is_checkpoint_due(&self) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed) >= STEPS || self.is_half_full()
    }

    /// A checkpoint should give space back soon.
    pub fn is_half_full(&self) -> bool {
        self.used() > self.size / 2
    }

    /// It must, before anything else is noted.
    pub fn is_full(&self) -> bool {
        self.used() > self.size / 10 * 9
    }

    /// Pending records that make a commit due.
    pub fn commit_bytes(&self) -> u64 {
        COMMIT_BYTES.min(self.size / COMMIT_PART)
    }
}
