//! What a store says of the writer of a volume, without opening it.
use crate::device::{OPEN_PATIENCE, runtime};
use crate::notice::Observer;
use crate::records::Holder;
use crate::remote::Remote;
use crate::{Result, claim, recover};
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long each request is waited for that asks how a volume was closed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
/// Epochs among which that of a process is looked for: others may have followed.
const EPOCHS: usize = 64;

/// How the epoch of a writer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its writer closed the volume, or never took it.
    Closed,
    /// It has no end.
    Open,
    /// Another writer ended it.
    TakenOver {
        /// The other's epoch.
        epoch: u32,
        /// The other writer.
        holder: String,
    },
}

/// Whether the store keeps a second writer out.
pub fn probe(store: Arc<dyn ObjectStore>, prefix: &Path, observer: Observer) -> Result<bool> {
    let remote = Remote::new(store, prefix.clone(), OPEN_PATIENCE).observed(observer);
    runtime()?.block_on(claim::is_conditional(&remote))
}

/// Whether the volume's last writer has not ended its epoch.
pub fn is_held(store: Arc<dyn ObjectStore>, prefix: &Path, observer: Observer) -> Result<bool> {
    let remote = Remote::new(store, prefix.clone(), OPEN_PATIENCE).observed(observer);
    runtime()?.block_on(async { Ok(recover::held(&remote).await?.is_some()) })
}

/// How the last epoch ended that this process of this host took. A store that does not answer is an error after some seconds.
pub fn ended(store: Arc<dyn ObjectStore>, prefix: &Path, pid: u32) -> Result<Ending> {
    let remote = Remote::new(store, prefix.clone(), CLOSE_PATIENCE);
    remote.bound_requests(CLOSE_PATIENCE);
    let runtime = runtime()?;
    let ending = runtime.block_on(ending(&remote, pid));
    // A request that was given up may be in a system call.
    runtime.shutdown_background();
    ending
}

pub(crate) async fn ending(remote: &Remote, pid: u32) -> Result<Ending> {
    let volume = recover::volume(remote).await?;
    let mut later: Option<(u32, Holder)> = None;
    for epoch in recover::epochs(remote).await?.into_iter().rev().take(EPOCHS) {
        let Some(holder) = claim::known_holder(remote, epoch).await? else { continue };
        if !holder.is_here(pid) {
            later = Some((epoch, holder));
            continue;
        }
        return Ok(match recover::sealed_by(remote, &volume, epoch).await? {
            Some(by) if by == epoch => Ending::Closed,
            by => match later.filter(|(epoch, _)| by.is_none_or(|by| by == *epoch)) {
                Some((epoch, holder)) => Ending::TakenOver { epoch, holder: holder.describe() },
                None => by.map_or(Ending::Open, |epoch| Ending::TakenOver {
                    epoch,
                    holder: "another writer".into(),
                }),
            },
        });
    }
    Ok(Ending::Closed)
}
