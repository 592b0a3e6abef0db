//! The writer of a volume according to the store, without opening the volume.
use crate::Result;
use crate::device::open::{remote, runtime};
use crate::fence::owner::{self, Owner};
use crate::fence::{epoch, probe};
use crate::ids::Epoch;
use crate::log::recovery::seals;
use crate::log::volume;
use crate::notice::Observer;
use crate::wire::remote::Remote;
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time limit of each request that finds out how a volume was closed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
/// Number of epochs that are searched for that of a process: others may have followed.
const EPOCHS: usize = 64;

/// How the epoch of a writer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its writer closed the volume, or never took it.
    Closed,
    /// The epoch has not ended.
    Open,
    /// Another writer ended it.
    TakenOver {
        /// The other's epoch.
        epoch: u32,
        /// The other writer.
        owner: String,
    },
}

/// Whether the store can keep a second writer out.
pub fn probe(store: Arc<dyn ObjectStore>, prefix: &Path, observer: Observer) -> Result<bool> {
    let remote = remote(store, prefix, observer);
    runtime()?.block_on(probe::is_conditional(&remote))
}

/// Whether the volume's last writer has not ended its epoch.
pub fn is_held(store: Arc<dyn ObjectStore>, prefix: &Path, observer: Observer) -> Result<bool> {
    let remote = remote(store, prefix, observer);
    runtime()?.block_on(async { Ok(seals::held(&remote).await?.is_some()) })
}

/// How the last epoch ended that process `pid` of this host took. A store that does not answer is an error
/// after some seconds.
pub fn ended(store: Arc<dyn ObjectStore>, prefix: &Path, pid: u32) -> Result<Ending> {
    let remote = Remote::new(store, prefix.clone(), CLOSE_PATIENCE);
    remote.bound_requests(CLOSE_PATIENCE);
    let runtime = runtime()?;
    let ending = runtime.block_on(ending(&remote, pid));
    // A cancelled request may be in a system call.
    runtime.shutdown_background();
    ending
}

pub(crate) async fn ending(remote: &Remote, pid: u32) -> Result<Ending> {
    let volume = volume::read(remote).await?;
    let mut later: Option<(Epoch, Owner)> = None;
    for epoch in epoch::list(remote).await?.into_iter().rev().take(EPOCHS) {
        let Some(owner) = owner::known(remote, epoch).await? else { continue };
        if !owner.is_here(pid) {
            later = Some((epoch, owner));
            continue;
        }
        let by = seals::sealed_by(remote, &volume, epoch).await?;
        if by == Some(epoch) {
            return Ok(Ending::Closed);
        }
        // A writer that has taken the next epoch may not have sealed this one yet.
        let other = later.filter(|(other, _)| by.is_none_or(|by| by == *other));
        let other = other.map(|(epoch, owner)| (epoch, owner.describe()));
        let other = other.or(by.map(|epoch| (epoch, "another writer".to_owned())));
        return Ok(
            other.map_or(Ending::Open, |(epoch, owner)| Ending::TakenOver { epoch: epoch.get(), owner })
        );
    }
    Ok(Ending::Closed)
}
