//! Opening: the newest map, the log behind it, and the seals that end all earlier epochs.
//!
//! A seal counts only if the map from which the log was read still exists afterwards. Maps are deleted before any commit
//! that they are followed by, so then no commit behind the map can have been deleted before the seal was created, and the
//! log really ended there. No listing has to be current for that.
use crate::claim;
use crate::commit::{self, Entry, Session};
use crate::local::Local;
use crate::map::Map;
use crate::names::{Name, ObjectId};
use crate::records::{Volume, decode_map};
use crate::remote::{Created, Remote};
use crate::shelf::Shelf;
use crate::stats::Cause;
use crate::{Result, StoreError};
use bytes::Bytes;
use futures_util::{StreamExt, stream, try_join};

/// Commits read at a time.
const READ_AT_ONCE: usize = 64;
/// Commits that a writer has in flight, so many may follow one that was cut off.
pub(crate) const WINDOW: u64 = 4;
/// Times that the objects may change under a mount before it is refused.
const ATTEMPTS: u32 = 10;

/// What a mount begins with.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub volume: Volume,
    pub map: Map,
    /// The map that it was read from.
    pub base: (u32, u64),
    /// The first place of the log that was not read.
    pub next: (u32, u64),
    /// Commits behind that map.
    pub replayed: u64,
    /// Of a writable mount.
    pub session: Option<Session>,
}

/// A log being read.
struct Walk<'a> {
    remote: &'a Remote,
    volume: Volume,
    map: Map,
    listed: Vec<Name>,
    /// Next place of the log.
    epoch: u32,
    seq: u64,
    replayed: u64,
}

/// What an object of the log did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Applied,
    /// A seal, or an object that was cut off: nothing can follow it.
    Ended,
}

pub(crate) async fn volume(remote: &Remote) -> Result<Volume> {
    let bytes = remote.get(Name::Volume, Cause::Open).await?.ok_or(StoreError::NoVolume)?;
    let volume = Volume::decode(&bytes)?;
    remote.set_unfenced(volume.unfenced);
    Ok(volume)
}

/// Reads the state, without taking the volume.
pub(crate) async fn read_only(remote: &Remote) -> Result<Recovered> {
    for _ in 0..ATTEMPTS {
        let Some((mut walk, base, last)) = begin(remote).await? else { continue };
        match walk.run(last, None).await {
            Ok(_) => return Ok(walk.recovered(base, None)),
            Err(StoreError::Missing { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    Err(StoreError::Unsettled(ATTEMPTS))
}

/// The state that a tail of an epoch builds on, with the commits of that tail, and how many places they take. `None` if the
/// store no longer has that state.
pub(crate) async fn with_tail(
    remote: &Remote,
    shelf: &dyn Shelf,
    epoch: u32,
) -> Result<Option<(Recovered, u64)>> {
    for _ in 0..ATTEMPTS {
        let (volume, maps) = try_join!(volume(remote), remote.list("map", None, Cause::Open))?;
        let before = |name: &&Name| matches!(name, Name::Map { epoch: of, .. } if *of <= epoch);
        let Some(&map) = maps.iter().rfind(before) else { return Ok(None) };
        let Some((mut walk, base, _)) = begin_at(remote, volume, map).await? else { continue };
        let sealed = match walk.run(epoch, None).await {
            Err(StoreError::Missing { .. }) => continue,
            other => other?,
        };
        let kept = remote.head(map, Cause::Open).await?.is_some();
        if !kept || (!sealed && walk.epoch != epoch) {
            continue;
        }
        let from = walk.map.seals.get(&epoch).copied().unwrap_or(walk.seq);
        (walk.epoch, walk.seq) = (epoch, from);
        walk.listed.clear();
        while let Some(bytes) = staged(remote, shelf, epoch, walk.seq).await?
            && walk.take(&bytes)? == Step::Applied
        {}
        let places = walk.seq - from;
        return Ok(Some((walk.recovered(base, None), places)));
    }
    Err(StoreError::Unsettled(ATTEMPTS))
}

/// A commit of a tail. One behind others may have been uploaded before them.
async fn staged(remote: &Remote, shelf: &dyn Shelf, epoch: u32, seq: u64) -> Result<Option<Bytes>> {
    let id = ObjectId::Log { epoch, seq };
    match shelf.read(id, None).await {
        Ok(Some(bytes)) => Ok(Some(bytes)),
        Ok(None) => remote.get(Name::Object(id), Cause::Open).await,
        Err(e) => Err(StoreError::Unreadable { object: Name::Object(id).to_string(), why: e.to_string() }),
    }
}

/// Takes the volume: a new epoch, with all earlier ones sealed.
pub(crate) async fn writable(remote: &Remote, takeover: bool, local: Option<&Local>) -> Result<Recovered> {
    let mut session: Option<Session> = None;
    for _ in 0..ATTEMPTS {
        let Some((mut walk, base, mut last)) = begin(remote).await? else { continue };
        if let Some(ours) = session {
            last = ours.epoch - 1;
        }
        let sealed = match walk.run(last, None).await {
            Err(StoreError::Missing { .. }) => continue,
            other => other?,
        };
        if !sealed && session.is_none() && !takeover {
            claim::refuse_holder(remote, last, local.map(|l| &l.of)).await?;
        }
        let ours = match session {
            Some(ours) => ours,
            None => {
                let cache = local.filter(|l| l.writeback).map(|l| l.of.clone());
                claim::take(remote, &walk.volume, last + 1, cache).await?
            }
        };
        session = Some(ours);
        walk.run(last, Some(&ours)).await?;
        let (epoch, seq) = base;
        if remote.head(Name::Map { epoch, seq }, Cause::Open).await?.is_some() {
            return Ok(walk.recovered(base, Some(ours)));
        }
    }
    Err(StoreError::Unsettled(ATTEMPTS))
}

/// Reads the newest map and lists what follows; also returns the last epoch. `None` if the map was deleted meanwhile.
async fn begin(remote: &Remote) -> Result<Option<(Walk<'_>, (u32, u64), u32)>> {
    let (volume, maps) = try_join!(volume(remote), remote.list("map", None, Cause::Open))?;
    let mut damage = StoreError::Missing { object: "map".into() };
    // The one before the newest, and the commits behind it, give the same state.
    for name in maps.iter().rev().take(2) {
        match begin_at(remote, volume, *name).await {
            Err(e @ StoreError::Corrupt { .. }) => damage = e,
            other => return other,
        }
    }
    Err(damage)
}

async fn begin_at(remote: &Remote, volume: Volume, map: Name) -> Result<Option<(Walk<'_>, (u32, u64), u32)>> {
    let Name::Map { epoch, seq } = map else { return Ok(None) };
    let after = Name::Map { epoch, seq };
    let epochs = remote.list("epoch", epoch.checked_sub(1).map(Name::Epoch), Cause::Open);
    let commits = remote.list("log", Some(Name::log(epoch, seq)), Cause::Open);
    let (bytes, epochs, listed) = try_join!(remote.get(after, Cause::Open), epochs, commits)?;
    let Some(bytes) = bytes else { return Ok(None) };
    let last = match epochs.last() {
        Some(&Name::Epoch(last)) => last,
        _ => epoch,
    };
    let map = decode_map(&volume, epoch, seq, &bytes)?;
    let walk = Walk { remote, volume, map, listed, epoch, seq: seq + 1, replayed: 0 };
    Ok(Some((walk, (epoch, seq), last)))
}

impl Walk<'_> {
    fn recovered(self, base: (u32, u64), session: Option<Session>) -> Recovered {
        let next = (self.epoch, self.seq);
        Recovered { volume: self.volume, map: self.map, base, next, replayed: self.replayed, session }
    }

    /// Reads on to the end of an epoch. With `by`, ends each epoch that has no end. Returns whether all have one.
    async fn run(&mut self, last: u32, by: Option<&Session>) -> Result<bool> {
        while self.epoch <= last {
            // mkfs has no log.
            let mut ended = self.epoch == 0 || self.read_listed().await?;
            if let Some(by) = by.filter(|_| !ended) {
                self.seal(by).await?;
                ended = true;
            }
            if !ended {
                return Ok(false);
            }
            if self.epoch > 0 {
                self.map.seals.insert(self.epoch, self.seq);
            }
            (self.epoch, self.seq) = (self.epoch + 1, 1);
        }
        Ok(true)
    }

    /// Reads the listed commits that follow. Returns whether the epoch's end was among them.
    async fn read_listed(&mut self) -> Result<bool> {
        let epoch = self.epoch;
        let remote = self.remote;
        let get = |seq| async move { (seq, remote.get(Name::log(epoch, seq), Cause::Open).await) };
        let mut objects = stream::iter(self.places()).map(get).buffered(READ_AT_ONCE);
        while let Some((seq, bytes)) = objects.next().await {
            // A place that a commit before it has taken.
            if seq < self.seq {
                continue;
            }
            if seq > self.seq {
                break;
            }
            let name = Name::log(epoch, seq);
            // Deleted since it was listed, so there is a newer map.
            let bytes = bytes?.ok_or(StoreError::Missing { object: name.to_string() })?;
            if self.take(&bytes)? == Step::Ended {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Creates the seal behind the last commit. Commits that are there already count.
    async fn seal(&mut self, by: &Session) -> Result<()> {
        loop {
            let seal = commit::seal(by, self.epoch, self.seq);
            match self.remote.create(Name::log(self.epoch, self.seq), seal, Cause::Open).await? {
                Created::Ours => return Ok(()),
                Created::Other(bytes) if self.take(&bytes)? == Step::Ended => return Ok(()),
                Created::Other(_) => {}
            }
        }
    }

    /// Applies the object at the present place.
    fn take(&mut self, bytes: &Bytes) -> Result<Step> {
        match commit::read(&self.volume.id, self.epoch, self.seq, bytes) {
            Ok((Entry::Seal { .. }, _)) => Ok(Step::Ended),
            Ok((Entry::Commit { ops, places }, inline)) => {
                if !self.map.apply(&ops, inline as u16) {
                    let name = Name::log(self.epoch, self.seq);
                    return Err(StoreError::corrupt(&name, "it changes what the volume does not have"));
                }
                (self.seq, self.replayed) = (self.seq + u64::from(places), self.replayed + 1);
                Ok(Step::Applied)
            }
            // Its writer was cut off, unless later ones show that it was acknowledged.
            Err(damage) if self.places().iter().filter(|&&s| s > self.seq).count() as u64 >= WINDOW => {
                Err(damage)
            }
            Err(_) => Ok(Step::Ended),
        }
    }

    /// The places that were listed, from the present one on.
    fn places(&self) -> Vec<u64> {
        let from = self.listed.partition_point(|&name| name < Name::log(self.epoch, self.seq));
        let of_epoch = self.listed.iter().skip(from).map_while(|name| match *name {
            Name::Object(ObjectId::Log { epoch, seq }) if epoch == self.epoch => Some(seq),
            _ => None,
        });
        of_epoch.collect()
    }
}

/// The last epoch, if it has no end yet.
pub(crate) async fn held(remote: &Remote) -> Result<Option<u32>> {
    let volume = volume(remote).await?;
    let epochs = remote.list("epoch", None, Cause::Open).await?;
    let Some(&Name::Epoch(last)) = epochs.last() else { return Ok(None) };
    let log = remote.list(&format!("log/{last:08x}"), None, Cause::Open).await?;
    for name in log.into_iter().rev() {
        let Name::Object(ObjectId::Log { epoch, seq }) = name else { continue };
        let Some(bytes) = remote.get(name, Cause::Open).await? else { continue };
        let sealed = matches!(commit::read(&volume.id, epoch, seq, &bytes), Ok((Entry::Seal { .. }, _)));
        return Ok(Some(last).filter(|_| !sealed));
    }
    Ok(Some(last))
}
