//! The log after a map, applied to it. No I/O.
use crate::fence::epoch::Session;
use crate::ids::{Epoch, LogPlace, Seq};
use crate::log::commit::{self, Entry, Record};
use crate::log::map::Map;
use crate::log::map_record::decode_map;
use crate::log::volume::Volume;
use crate::wire::names::Name;
use crate::{Result, StoreError};

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

/// A log that is being read.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub volume: Volume,
    pub map: Map,
    /// The map that it began with.
    pub base: LogPlace,
    /// Objects of the log after that map, in order. The listing need not be current.
    listed: Vec<LogPlace>,
    /// Next place of the log.
    pub place: LogPlace,
    /// Commits that were applied.
    commits: u64,
}

/// Effect of an object of the log.
#[derive(Debug)]
pub(crate) enum Effect {
    Applied,
    /// It is a seal.
    Sealed,
    /// Its content is not that of an object in its place.
    Damaged(StoreError),
}

impl Replay {
    pub(crate) fn new(volume: Volume, base: LogPlace, map: &[u8], listed: Vec<LogPlace>) -> Result<Self> {
        let map = decode_map(&volume, base, map)?;
        let place =
            base.after(1).map_err(|_| StoreError::corrupt(Name::Map(base), "no commit can follow it"))?;
        Ok(Self { volume, map, base, listed, place, commits: 0 })
    }

    /// Applies the object of the present place.
    pub(crate) fn apply(&mut self, bytes: &[u8]) -> Result<Effect> {
        let Record { entry, inline, .. } = match commit::read(&self.volume.id, self.place, bytes) {
            Ok(record) => record,
            Err(damage) => return Ok(Effect::Damaged(damage)),
        };
        let Entry::Commit { ops, places } = entry else { return Ok(Effect::Sealed) };
        if !self.map.apply(&ops, inline as u16) {
            let why = "it changes what the volume does not have";
            return Err(StoreError::corrupt(Name::log(self.place), why));
        }
        (self.place, self.commits) = (self.place.after(places)?, self.commits + 1);
        Ok(Effect::Applied)
    }

    /// Continues in the next epoch, as this one ends here.
    pub(crate) fn end_epoch(&mut self) -> Result<()> {
        // mkfs has no log.
        if self.place.epoch != Epoch::MKFS {
            self.map.seals.insert(self.place.epoch, self.place.seq);
        }
        self.place = LogPlace::first(self.place.epoch.next()?);
        Ok(())
    }

    /// Objects of the epoch that were listed, from the present place on.
    pub(crate) fn listed(&self) -> Vec<LogPlace> {
        let from = self.listed.partition_point(|&place| place < self.place);
        let listed = self.listed.iter().skip(from);
        listed.take_while(|place| place.epoch == self.place.epoch).copied().collect()
    }

    /// Whether an object of the present place, or a later one, was listed.
    pub(crate) fn is_followed(&self) -> bool {
        self.listed.last().is_some_and(|&last| last >= self.place)
    }

    /// Whether an object of a later epoch was listed.
    pub(crate) fn has_later_epoch(&self) -> bool {
        self.listed.last().is_some_and(|last| last.epoch > self.place.epoch)
    }

    /// Whether an object proves that all commits up to the present place were stored when it was made.
    pub(crate) fn is_marked_by(&self, place: LogPlace, bytes: &[u8]) -> bool {
        let read = commit::read(&self.volume.id, place, bytes);
        read.is_ok_and(|record| record.marks.stored >= self.place.seq)
    }

    pub(crate) fn recovered(self, session: Option<Session>) -> Recovered {
        let Self { volume, map, base, place: next, commits: replayed, .. } = self;
        Recovered { volume, map, base, next, replayed, session }
    }
}
