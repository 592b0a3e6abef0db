//! Whether the pieces in a cache belong to the history of the store.
use crate::Result;
use crate::fence::owner;
use crate::ids::{LogPlace, Seq};
use crate::local::cache::Local;
use crate::local::disk::Seen;
use crate::log::recovery::replay::Recovered;
use crate::notice::Notice;
use crate::wire::remote::Remote;

/// Drops cached blocks if the store was in a later state when they were read, or is another store.
pub(crate) async fn check(local: &Local, remote: &Remote, found: &Recovered) -> Result<()> {
    let Some((disk, seen)) = local.disk.as_ref().and_then(|disk| Some((disk, disk.seen()?))) else {
        return Ok(());
    };
    let is_same = owner::session(remote, seen.epoch).await? == Some(seen.session);
    if !is_same || found.last_of(seen.epoch) < seen.seq {
        let dir = local.of.path.clone();
        remote.notify(&Notice::SetBack { dir, epoch: seen.epoch.get(), commit: seen.seq.get() });
        disk.clear();
    }
    Ok(())
}

/// Records the history of the pieces that are kept from now on.
pub(crate) async fn record(local: &Local, remote: &Remote, found: &Recovered) -> Result<()> {
    let Some(disk) = &local.disk else { return Ok(()) };
    let (epoch, session) = match found.session {
        Some(session) => (session.epoch, Some(session.id)),
        None => {
            let LogPlace { epoch: next, seq } = found.next;
            let epoch = if seq > Seq::FIRST { next } else { next.previous().unwrap_or_default() };
            (epoch, owner::session(remote, epoch).await?)
        }
    };
    if let Some(session) = session {
        disk.set_seen(Seen { epoch, session, seq: found.last_of(epoch) });
    }
    Ok(())
}
