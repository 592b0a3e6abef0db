//! Opening: the newest map, the log after it, and the seals that end all earlier epochs.
//!
//! A seal counts only if the map from which the log was read still exists afterwards. Maps are deleted before
//! the commits that follow them. So if the map exists, no commit after it can have been deleted before the
//! seal was created, and the log really ended there. No listing has to be current for that.
use crate::fence::epoch::{EpochClaim, Session};
use crate::fence::owner;
use crate::ids::{Epoch, LogPlace, Seq};
use crate::local::spool::Spool;
use crate::log::commit::{self, Entry, Record, WINDOW};
use crate::log::map::Map;
use crate::log::map_record::decode_map;
use crate::log::volume::{self, Volume};
use crate::notice::Notice;
use crate::stats::Cause;
use crate::wire::names::{Name, ObjectId};
use crate::wire::remote::{Created, Remote};
use crate::{Result, StoreError};
use bytes::Bytes;
use futures_util::{StreamExt, stream, try_join};

/// Commits read at a time.
const READ_AT_ONCE: usize = 64;
/// Bytes of each of them. A longer one is read alone.
const SHORT_BYTES: u64 = 1 << 20;
/// Epochs that a listing may omit, as it is not current.
const EPOCHS_UNLISTED: u64 = 1024;
/// Times that the objects may change under a mount before it is refused.
const ATTEMPTS: u32 = 10;

/// State with which a mount begins.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub volume: Volume,
    pub map: Map,
    /// The map that it was read from.
    pub base: LogPlace,
    /// The first place of the log that was not read.
    pub next: LogPlace,
    /// Commits after that map.
    pub replayed: u64,
    /// Present for a writable mount.
    pub session: Option<Session>,
}

impl Recovered {
    /// The last commit of an epoch.
    pub(crate) fn last_of(&self, epoch: Epoch) -> Seq {
        let place =
            if self.next.epoch == epoch { Some(self.next.seq) } else { self.map.seals.get(&epoch).copied() };
        place.unwrap_or_default().previous()
    }
}

/// A log being read.
struct Walk<'a> {
    remote: &'a Remote,
    volume: Volume,
    map: Map,
    /// The map that it began with.
    base: LogPlace,
    listed: Vec<Name>,
    /// Next place of the log.
    place: LogPlace,
    replayed: u64,
}

/// Effect of an object of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Applied,
    /// A seal, or a truncated object: nothing can follow it.
    Ended,
}

/// Reads the state, without taking the volume.
pub(crate) async fn read_only(remote: &Remote) -> Result<Recovered> {
    for _ in 0..ATTEMPTS {
        let Some((mut walk, last)) = begin(remote).await? else { continue };
        match walk.run(last, None).await {
            Ok(_) => return Ok(walk.recovered(None)),
            Err(StoreError::Missing { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    Err(StoreError::Unsettled(ATTEMPTS))
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
    for _ in 0..ATTEMPTS {
        let (volume, maps) = try_join!(volume::read(remote), remote.list("map", None, Cause::Open))?;
        let before = |name: &&Name| matches!(name, Name::Map(of) if of.epoch <= epoch);
        let Some(&map) = maps.iter().rfind(before) else { return Ok(None) };
        let Some((mut walk, _)) = begin_at(remote, volume, map).await? else { continue };
        let sealed = match walk.run(epoch, None).await {
            Err(StoreError::Missing { .. }) => continue,
            other => other?,
        };
        let kept = walk.has_base().await?;
        if !kept || (!sealed && walk.place.epoch != epoch) {
            continue;
        }
        let from = walk.map.seals.get(&epoch).copied().unwrap_or(walk.place.seq);
        walk.place = LogPlace::new(epoch, from);
        walk.listed.clear();
        while let Some(bytes) = spooled(remote, spool, walk.place).await?
            && walk.take(&bytes).await? == Step::Applied
        {}
        let places = walk.place.seq.since(from);
        return Ok(Some((walk.recovered(None), places)));
    }
    Err(StoreError::Unsettled(ATTEMPTS))
}

/// A commit of a spool. A later commit may have been uploaded before earlier ones.
async fn spooled(remote: &Remote, spool: &dyn Spool, place: LogPlace) -> Result<Option<Bytes>> {
    let id = ObjectId::Log(place);
    match spool.read(id, None).await.map_err(|e| StoreError::unreadable(id, &e))? {
        Some(bytes) => Ok(Some(bytes)),
        None => remote.get(Name::Object(id), Cause::Open).await,
    }
}

/// Takes the volume: a new epoch, with all earlier ones sealed.
pub(crate) async fn writable(remote: &Remote, claim: &EpochClaim) -> Result<Recovered> {
    let mut session: Option<Session> = None;
    for _ in 0..ATTEMPTS {
        let Some((mut walk, mut last)) = begin(remote).await? else { continue };
        if let Some(ours) = session {
            last = ours.epoch.previous().unwrap_or_default();
        }
        let sealed = match walk.run(last, None).await {
            Err(StoreError::Missing { .. }) => continue,
            other => other?,
        };
        if !sealed && session.is_none() && !claim.takeover {
            owner::refuse(remote, last, claim.cache.as_ref()).await?;
        }
        let cut_off = !sealed && session.is_none() && claim.takeover;
        let ours = match session {
            Some(ours) => ours,
            None => {
                let own = last
                    .next()
                    .map_err(|_| StoreError::corrupt(Name::Epoch(last), "no epoch can follow it"))?;
                claim.take(remote, walk.volume.session(own)?).await?
            }
        };
        session = Some(ours);
        walk.run(last, Some(&ours)).await?;
        if cut_off {
            walk.report_takeover(last).await?;
        }
        if walk.has_base().await? {
            return Ok(walk.recovered(Some(ours)));
        }
    }
    Err(StoreError::Unsettled(ATTEMPTS))
}

/// Reads the newest map and lists what follows; also returns the last epoch. `None` if the map was deleted
/// meanwhile.
async fn begin(remote: &Remote) -> Result<Option<(Walk<'_>, Epoch)>> {
    let (volume, maps) = try_join!(volume::read(remote), remote.list("map", None, Cause::Open))?;
    let mut damage = StoreError::Missing { object: "map".into() };
    // The map before the newest, with the commits after it, gives the same state.
    for name in maps.iter().rev().take(2) {
        match begin_at(remote, volume, *name).await {
            Err(e @ StoreError::Corrupt { .. }) => damage = e,
            other => return other,
        }
    }
    Err(damage)
}

async fn begin_at(remote: &Remote, volume: Volume, map: Name) -> Result<Option<(Walk<'_>, Epoch)>> {
    let Name::Map(base) = map else { return Ok(None) };
    let epochs = remote.list("epoch", base.epoch.previous().map(Name::Epoch), Cause::Open);
    let commits = remote.list("log", Some(Name::log(base)), Cause::Open);
    let bytes = remote.get_up_to(map, volume.geometry.map_bytes_max(), Cause::Open);
    let (bytes, epochs, listed) = try_join!(bytes, epochs, commits)?;
    let Some(bytes) = bytes else { return Ok(None) };
    let last = match epochs.last() {
        Some(&Name::Epoch(last)) => last,
        _ => base.epoch,
    };
    // Each of them gets an end, so their number must be limited.
    if u64::from(last.since(base.epoch)) > epochs.len() as u64 + EPOCHS_UNLISTED {
        return Err(StoreError::corrupt(Name::Epoch(last), "the epochs before it are missing"));
    }
    let decoded = decode_map(&volume, base, &bytes)?;
    let place = base.after(1).map_err(|_| StoreError::corrupt(map, "no commit can follow it"))?;
    Ok(Some((Walk { remote, volume, map: decoded, base, listed, place, replayed: 0 }, last)))
}

impl Walk<'_> {
    fn recovered(self, session: Option<Session>) -> Recovered {
        let Self { volume, map, base, place: next, replayed, .. } = self;
        Recovered { volume, map, base, next, replayed, session }
    }

    fn base(&self) -> Name {
        Name::Map(self.base)
    }

    /// Whether the map that it began with is still there.
    async fn has_base(&self) -> Result<bool> {
        Ok(self.remote.head(self.base(), Cause::Open).await?.is_some())
    }

    /// Reports where the epoch of another writer was ended.
    async fn report_takeover(&self, epoch: Epoch) -> Result<()> {
        let (owner, seal) = (owner::known(self.remote, epoch).await?, self.map.seals.get(&epoch));
        let (Some(owner), Some(&seal)) = (owner, seal) else { return Ok(()) };
        let last = seal.previous();
        let newest =
            if last == Seq::NONE { Name::Epoch(epoch) } else { Name::log(LogPlace::new(epoch, last)) };
        let meta = self.remote.head(newest, Cause::Open).await?;
        let stored_at = meta.map_or_else(|| "unknown time".to_owned(), |meta| meta.last_modified.to_string());
        let (epoch, commits) = (epoch.get(), last.get());
        self.remote.notify(&Notice::TookOver { epoch, owner: owner.describe(), commits, stored_at });
        Ok(())
    }

    /// Reads to the end of an epoch. With `by`, ends each epoch that has no end. Returns whether all have
    /// one.
    async fn run(&mut self, last: Epoch, by: Option<&Session>) -> Result<bool> {
        while self.place.epoch <= last {
            // mkfs has no log.
            let mut ended = self.place.epoch == Epoch::MKFS || self.read_listed().await?;
            if let Some(by) = by.filter(|_| !ended) {
                self.seal(by).await?;
                ended = true;
            }
            if !ended {
                return Ok(false);
            }
            if self.place.epoch != Epoch::MKFS {
                self.map.seals.insert(self.place.epoch, self.place.seq);
            }
            self.place = LogPlace::first(self.place.epoch.next()?);
        }
        Ok(true)
    }

    /// Reads the commits that follow. Returns whether the epoch's end was among them.
    async fn read_listed(&mut self) -> Result<bool> {
        loop {
            if self.read_run().await? == Step::Ended {
                return Ok(true);
            }
            if !self.is_followed() {
                return Ok(false);
            }
            // A listing is not atomic: this place may have been taken after it was listed.
            let Some(bytes) = self.remote.get(self.name(), Cause::Open).await? else {
                return self.refuse_a_loss(self.lost()).await.map(|()| false);
            };
            if self.take(&bytes).await? == Step::Ended {
                return Ok(true);
            }
        }
    }

    /// Reads the listed commits that follow without a gap.
    async fn read_run(&mut self) -> Result<Step> {
        let remote = self.remote;
        let get = |place| async move {
            (place, remote.get_short(Name::log(place), SHORT_BYTES, Cause::Open).await)
        };
        let mut objects = stream::iter(self.places()).map(get).buffered(READ_AT_ONCE);
        while let Some((place, bytes)) = objects.next().await {
            // An earlier commit takes this place as well.
            if place < self.place {
                continue;
            }
            if place > self.place {
                break;
            }
            let Some(bytes) = bytes? else { break };
            if self.take(&bytes).await? == Step::Ended {
                return Ok(Step::Ended);
            }
        }
        Ok(Step::Applied)
    }

    /// Creates the seal after the last commit. Commits that exist already are applied.
    async fn seal(&mut self, by: &Session) -> Result<()> {
        loop {
            // Created like a commit: a commit that its writer created first is applied, and after the seal
            // the writer creates none.
            let seal = commit::seal(by, self.place);
            match self.remote.create(self.name(), seal, Cause::Open).await? {
                Created::Ours => return Ok(()),
                Created::Other(bytes) if self.take(&bytes).await? == Step::Ended => return Ok(()),
                Created::Other(_) => {}
            }
        }
    }

    /// Applies the object at the present place.
    async fn take(&mut self, bytes: &Bytes) -> Result<Step> {
        match commit::read(&self.volume.id, self.place, bytes) {
            Ok(Record { entry: Entry::Seal { .. }, .. }) => Ok(Step::Ended),
            Ok(Record { entry: Entry::Commit { ops, places }, inline, .. }) => {
                if !self.map.apply(&ops, inline as u16) {
                    return Err(StoreError::corrupt(self.name(), "it changes what the volume does not have"));
                }
                (self.place, self.replayed) = (self.place.after(places)?, self.replayed + 1);
                Ok(Step::Applied)
            }
            // Its writer was cut off.
            Err(damage) => self.refuse_a_loss(damage).await.map(|()| Step::Ended),
        }
    }

    fn name(&self) -> Name {
        Name::log(self.place)
    }

    fn lost(&self) -> StoreError {
        StoreError::Lost { object: self.name().to_string() }
    }

    /// Whether an object of the present place, or a later one, was listed.
    fn is_followed(&self) -> bool {
        self.listed.last().is_some_and(|&last| last >= self.name())
    }

    /// An error if the object of the present place, which is missing or damaged, was complete once. Otherwise
    /// its writer was cut off before it was acknowledged.
    async fn refuse_a_loss(&self, damage: StoreError) -> Result<()> {
        if !self.was_stored(&damage).await? {
            return Ok(());
        }
        // Without the map, a missing commit was deleted because a newer map covers it.
        if self.has_base().await? {
            return Err(damage);
        }
        Err(StoreError::Missing { object: self.base().to_string() })
    }

    /// Whether the list, or later objects, prove that it was stored.
    async fn was_stored(&self, damage: &StoreError) -> Result<bool> {
        let is_missing = matches!(damage, StoreError::Lost { .. });
        let (here, behind): (Vec<LogPlace>, Vec<LogPlace>) =
            self.places().into_iter().partition(|&place| place == self.place);
        if behind.len() as u64 >= WINDOW || (is_missing && !here.is_empty()) {
            return Ok(true);
        }
        for place in behind {
            let bytes = self.remote.get(Name::log(place), Cause::Open).await?.unwrap_or_default();
            let read = commit::read(&self.volume.id, place, &bytes);
            if read.is_ok_and(|record| record.marks.stored >= self.place.seq) {
                return Ok(true);
            }
        }
        // The next epoch has no commit before this one has ended. A truncated object also ends it.
        let later = self
            .listed
            .last()
            .is_some_and(|&last| last > Name::log(LogPlace::new(self.place.epoch, Seq::MAX)));
        Ok(later && is_missing)
    }

    /// The places that were listed, from the present one on.
    fn places(&self) -> Vec<LogPlace> {
        let from = self.listed.partition_point(|&name| name < self.name());
        let of_epoch = self.listed.iter().skip(from).map_while(|name| match *name {
            Name::Object(ObjectId::Log(place)) if place.epoch == self.place.epoch => Some(place),
            _ => None,
        });
        of_epoch.collect()
    }
}
