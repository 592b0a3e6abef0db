//! Epochs: the time in which one mount writes. Of all writers that create one, one succeeds.
use crate::fence::owner::{CacheId, Owner};
use crate::ids::{Epoch, LogPlace, Seq};
use crate::stats::Cause;
use crate::wire::names::Name;
use crate::wire::remote::Remote;
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
    /// Random. The session that takes the epoch has it.
    pub id: [u8; 16],
    /// End the last epoch even if its owner may be alive.
    pub takeover: bool,
    /// The cache that this mount has locked.
    pub cache: Option<CacheId>,
    /// Acknowledges writes that are in the cache.
    pub writeback: bool,
}

impl EpochClaim {
    /// Refuses to end an epoch whose owner may be alive, or may have left writes in a cache other than this
    /// one.
    pub(crate) fn admit(&self, epoch: Epoch, owner: &Owner, has_ended: bool) -> Result<()> {
        let described = || owner.describe();
        match &owner.cache {
            // Its cache is locked here, so it has ended, and everything in it was uploaded.
            Some(cache) if self.cache.as_ref().is_some_and(|ours| ours.id == cache.id) => Ok(()),
            _ if !has_ended => Err(StoreError::Held { epoch: epoch.get(), owner: described() }),
            Some(cache) => Err(StoreError::SpoolElsewhere { owner: described(), cache: cache.path.clone() }),
            None => Ok(()),
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
