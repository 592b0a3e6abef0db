//! Opening a volume: performs the requests that [`Opening`] decides on.
use crate::fence::epoch::EpochClaim;
use crate::fence::owner::{self, Owner};
use crate::ids::{Epoch, LogPlace, Seq};
use crate::local::spool::Spool;
use crate::log::commit;
use crate::log::recovery::opening::{Answer, Goal, Opened, Opening, Request};
use crate::log::recovery::replay::{Effect, Recovered};
use crate::log::volume;
use crate::notice::Notice;
use crate::stats::Cause;
use crate::wire::names::{Name, ObjectId};
use crate::wire::remote::Remote;
use crate::{Result, StoreError};
use bytes::Bytes;
use futures_util::{StreamExt, stream, try_join};

/// Commits read at a time.
const READ_AT_ONCE: usize = 64;
/// Bytes of each of them. A longer one is read alone.
const SHORT_BYTES: u64 = 1 << 20;

/// Reads the state, without taking the volume.
pub(crate) async fn read_only(remote: &Remote) -> Result<Recovered> {
    let opened = open(remote, Goal::Read).await?;
    Ok(opened.replay.recovered(None))
}

/// Takes the volume: a new epoch, with all earlier ones sealed.
pub(crate) async fn writable(remote: &Remote, claim: EpochClaim) -> Result<Recovered> {
    let Opened { replay, session, taken_over } = open(remote, Goal::Write(claim)).await?;
    let recovered = replay.recovered(session);
    if let Some(epoch) = taken_over {
        report_takeover(remote, epoch, &recovered).await?;
    }
    Ok(recovered)
}

/// The state that the commits of an epoch in a spool build on, with these commits, and the number of places
/// that they take. `None` if the store no longer has that state.
pub(crate) async fn with_spool(
    remote: &Remote,
    spool: &dyn Spool,
    epoch: Epoch,
    session: &[u8; 16],
) -> Result<Option<(Recovered, u64)>> {
    if owner::session(remote, epoch).await? != Some(*session) {
        return Ok(None);
    }
    let mut replay = match open(remote, Goal::Epoch(epoch)).await {
        Err(StoreError::Missing { .. }) => return Ok(None),
        opened => opened?.replay,
    };
    let from = replay.map.seals.get(&epoch).copied().unwrap_or(replay.place.seq);
    replay.place = LogPlace::new(epoch, from);
    while let Some(bytes) = spooled(remote, spool, replay.place).await?
        && matches!(replay.apply(&bytes)?, Effect::Applied)
    {}
    let places = replay.place.seq.since(from);
    Ok(Some((replay.recovered(None), places)))
}

/// A commit of a spool. A later commit may have been uploaded before earlier ones.
async fn spooled(remote: &Remote, spool: &dyn Spool, place: LogPlace) -> Result<Option<Bytes>> {
    let id = ObjectId::Log(place);
    match spool.read(id, None).await.map_err(|e| StoreError::unreadable(id, &e))? {
        Some(bytes) => Ok(Some(bytes)),
        None => remote.get(Name::Object(id), Cause::Open).await,
    }
}

/// Reports where the epoch of another writer was ended.
async fn report_takeover(remote: &Remote, epoch: Epoch, found: &Recovered) -> Result<()> {
    let (owner, seal) = (owner::known(remote, epoch).await?, found.map.seals.get(&epoch));
    let (Some(owner), Some(&seal)) = (owner, seal) else { return Ok(()) };
    let last = seal.previous();
    let newest = if last == Seq::NONE { Name::Epoch(epoch) } else { Name::log(LogPlace::new(epoch, last)) };
    let meta = remote.head(newest, Cause::Open).await?;
    let stored_at = meta.map_or_else(|| "unknown time".to_owned(), |meta| meta.last_modified.to_string());
    let (epoch, commits) = (epoch.get(), last.get());
    remote.notify(&Notice::TookOver { epoch, owner: owner.describe(), commits, stored_at });
    Ok(())
}

async fn open(remote: &Remote, goal: Goal) -> Result<Opened> {
    let mut opening = Opening::new(goal);
    let mut request = Request::Maps;
    loop {
        request = match request {
            Request::Done(opened) => return Ok(*opened),
            Request::Objects(places) => read_listed(remote, &mut opening, places).await?,
            other => opening.step(answer(remote, other).await?)?,
        };
    }
}

/// Reads objects that were listed, until the opening needs something else.
async fn read_listed(remote: &Remote, opening: &mut Opening, places: Vec<LogPlace>) -> Result<Request> {
    let get =
        |place| async move { (place, remote.get_short(Name::log(place), SHORT_BYTES, Cause::Open).await) };
    let mut objects = stream::iter(places).map(get).buffered(READ_AT_ONCE);
    while let Some((place, bytes)) = objects.next().await {
        match opening.step(Answer::Object(place, bytes?))? {
            Request::NextObject => {}
            other => return Ok(other),
        }
    }
    opening.step(Answer::NoMoreObjects)
}

/// Performs a request.
async fn answer(remote: &Remote, request: Request) -> Result<Answer> {
    Ok(match request {
        Request::Maps => {
            let (volume, maps) = try_join!(volume::read(remote), remote.list("map", None, Cause::Open))?;
            Answer::Maps(volume, maps.into_iter().filter_map(Name::place).collect())
        }
        Request::Base(base, bytes_max) => {
            let map = async {
                match remote.get_up_to(Name::Map(base), bytes_max, Cause::Open).await {
                    Err(e @ StoreError::Corrupt { .. }) => Ok(Err(e)),
                    other => other.map(Ok),
                }
            };
            let epochs = remote.list("epoch", base.epoch.previous().map(Name::Epoch), Cause::Open);
            let listed = remote.list("log", Some(Name::log(base)), Cause::Open);
            let (map, epochs, listed) = try_join!(map, epochs, listed)?;
            let epoch = |name| if let Name::Epoch(epoch) = name { Some(epoch) } else { None };
            Answer::Base {
                map,
                epochs: epochs.into_iter().filter_map(epoch).collect(),
                listed: listed.into_iter().filter_map(Name::place).collect(),
            }
        }
        Request::Object(place) => Answer::Object(place, remote.get(Name::log(place), Cause::Open).await?),
        Request::Owner(epoch) => {
            let owner = owner::get(remote, epoch).await?;
            Answer::Owner(owner.map(|owner| {
                let has_ended = owner.has_ended();
                (owner, has_ended)
            }))
        }
        Request::Claim(session, cache) => {
            let (name, owner) = (Name::Epoch(session.epoch), Owner::this(session.id, cache));
            Answer::Claimed(session, remote.create(name, owner.encode(), Cause::Open).await?)
        }
        Request::Seal(session, place) => {
            let seal = commit::seal(&session, place);
            Answer::Sealed(remote.create(Name::log(place), seal, Cause::Open).await?)
        }
        Request::Confirm(map) => Answer::Confirmed(remote.head(Name::Map(map), Cause::Open).await?.is_some()),
        Request::Objects(_) | Request::NextObject | Request::Done(_) => Answer::NoMoreObjects,
    })
}
