//! Notices: events on a volume that no call returns, reported to the caller that mounted it.
use segno_journal::Stale;
use std::fmt;
use std::sync::Arc;

/// An event that the user should know about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Notice {
    /// The journal is stale and was dropped.
    #[error("the journal is ignored: {0}")]
    JournalStale(Stale),
    /// Changes that a crash left in the journal were replayed. The journal is closed, as this mount uses
    /// none.
    #[error("what a crash left in the journal was replayed, and the journal is closed")]
    JournalClosed,
    /// The journal was dropped: the volume has an fsync after the checkpoint that the journal does not know.
    #[error("the journal is ignored: the volume was mounted elsewhere since the crash")]
    JournalForeign,
    /// A read-only mount serves the older checkpoint of a volume whose newest one is lost.
    #[error("the volume is damaged, and what was written since an older checkpoint is not shown: {0}")]
    JournalAhead(Stale),
    /// A read-only mount of a volume with a guard, without its journal.
    #[error(
        "the volume is marked for a journal that is not here, and changes that only that has are not shown"
    )]
    JournalElsewhere,
    /// A read-only mount recovered the volume in memory after a crash.
    #[error("what a crash left was replayed in memory; the device is unchanged")]
    RecoveredInMemory,
    /// The journal failed.
    #[error("{0}; the volume continues without its journal, with checkpoints only")]
    JournalFailed(String),
    /// The volume stopped: nothing more is written to it.
    #[error("{0}; the volume stopped: unmount it, and run `segno check` before it is mounted again")]
    Stopped(String),
    /// Another writer took the volume over: nothing more is written to it here.
    #[error("{0}; the volume stopped: unmount it. Changes since the last sync are lost")]
    TakenOver(String),
}

/// Receives notices, during mount and later, on any thread, possibly with locks held. It must not call the
/// volume. The default drops them.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<Take>>);

type Take = dyn Fn(&Notice) + Send + Sync;

impl Observer {
    /// An observer that calls a function.
    pub fn new(take: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(take)))
    }

    pub(crate) fn notify(&self, notice: &Notice) {
        if let Some(take) = &self.0 {
            take(notice);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Observer" } else { "no observer" })
    }
}
