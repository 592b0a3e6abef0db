//! Detects an idle volume.
use crate::sync::atomic::{AtomicU64, Ordering};

/// Counts operations, to detect an idle volume.
#[derive(Debug, Default)]
pub struct Activity {
    changes: AtomicU64,
    at_last_step: AtomicU64,
}

impl Activity {
    /// Records the start of an operation that changes something.
    pub fn note(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
    /// Whether no operation began since the last step.
    pub fn is_idle(&self) -> bool {
        self.changes.load(Ordering::Relaxed) == self.at_last_step.load(Ordering::Relaxed)
    }
    /// Whether no operation began since the last call.
    pub fn was_idle(&self) -> bool {
        let now = self.changes.load(Ordering::Relaxed);
        self.at_last_step.swap(now, Ordering::Relaxed) == now
    }
}
