//! How epochs ended.
use crate::Result;
use crate::fence::epoch;
use crate::ids::Epoch;
use crate::log::commit::{self, Entry, Record, WINDOW};
use crate::log::volume::{self, Volume};
use crate::stats::Cause;
use crate::wire::names::{Name, ObjectId};
use crate::wire::remote::Remote;

/// The last epoch, if it has no end yet.
pub(crate) async fn held(remote: &Remote) -> Result<Option<Epoch>> {
    let volume = volume::read(remote).await?;
    let Some(last) = epoch::list(remote).await?.pop() else { return Ok(None) };
    Ok(sealed_by(remote, &volume, last).await?.is_none().then_some(last))
}

/// The epoch of the writer that ended this one.
pub(crate) async fn sealed_by(remote: &Remote, volume: &Volume, epoch: Epoch) -> Result<Option<Epoch>> {
    let log = remote.list(&format!("log/{epoch}"), None, Cause::Open).await?;
    // Objects that its writer had in flight may follow a seal.
    for name in log.into_iter().rev().take(WINDOW as usize + 1) {
        let Name::Object(ObjectId::Log(place)) = name else { continue };
        let Some(bytes) = remote.get(name, Cause::Open).await? else { continue };
        if let Ok(Record { entry: Entry::Seal { by }, .. }) = commit::read(&volume.id, place, &bytes) {
            return Ok(Some(by));
        }
    }
    Ok(None)
}
