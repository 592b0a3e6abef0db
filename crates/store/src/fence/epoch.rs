//! Epochs: the time in which one mount writes. Of all writers that create one, one succeeds.
use crate::fence::owner::{CacheId, Owner};
use crate::ids::{Epoch, LogPlace, Seq};
use crate::stats::Cause;
use crate::wire::names::Name;
use crate::wire::remote::{Created, Remote};
use crate::{Result, StoreError};

/// Identifies a mount: its epoch and a random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub volume: [u8; 16],
    pub id: [u8; 16],
    pub epoch: Epoch,
    /// Commits of the volume have marks.
    pub marked: bool,
}

impl Session {
    /// A place in the log of its epoch.
    pub(crate) fn place(&self, seq: Seq) -> LogPlace {
        LogPlace::new(self.epoch, seq)
    }
}

/// How a mount claims the next epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct EpochClaim {
    /// End the last epoch even if its owner may be alive.
    pub takeover: bool,
    /// The cache that this mount has locked.
    pub cache: Option<CacheId>,
    /// Acknowledges writes that are in the cache.
    pub writeback: bool,
}

impl EpochClaim {
    /// Takes the epoch of a new session, unless another mount has it.
    pub(crate) async fn take(&self, remote: &Remote, session: Session) -> Result<Session> {
        let epoch = session.epoch;
        let owner = Owner::this(session.id, self.cache.clone().filter(|_| self.writeback));
        // The fence: of all writers that create this name one succeeds, and a seal of the epoch keeps out all
        // later commits of the writer that lost it.
        match remote.create(Name::Epoch(epoch), owner.encode(), Cause::Open).await? {
            Created::Ours => Ok(session),
            Created::Other(bytes) => {
                let owner = Owner::decode(epoch, &bytes)?.describe();
                Err(StoreError::LostRace { epoch: epoch.get(), owner })
            }
        }
    }
}

/// All epochs, in order.
pub(crate) async fn list(remote: &Remote) -> Result<Vec<Epoch>> {
    let names = remote.list("epoch", None, Cause::Open).await?;
    Ok(names
        .into_iter()
        .filter_map(|name| if let Name::Epoch(epoch) = name { Some(epoch) } else { None })
        .collect())
}
