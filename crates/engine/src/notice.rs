//! What a volume has to say that no call returns: to whoever mounted it.
use segno_journal::Stale;
use std::fmt;
use std::sync::Arc;

/// Something happened that a user should know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Notice {
    /// What the journal holds has no effect.
    #[error("the journal is ignored: {0}")]
    JournalStale(Stale),
    /// The same, as there is an fsync behind the checkpoint that its journal does not know.
    #[error("the journal is ignored: the volume was mounted elsewhere since the crash")]
    JournalForeign,
    #[error("{0}; the volume goes on without its journal, with checkpoints only")]
    JournalFailed(String),
}

/// Takes notices, at mount or later, from any thread. It must not call the volume. The default drops them.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<Take>>);

type Take = dyn Fn(&Notice) + Send + Sync;

impl Observer {
    pub fn new(take: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(take)))
    }

    pub(crate) fn tell(&self, notice: &Notice) {
        if let Some(take) = &self.0 {
            take(notice);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Observer" } else { "nobody" })
    }
}
