//! The maps that recovery may use, and what they no longer name: the order of storing and deleting, without
//! I/O.
//!
//! A map stands for all commits up to its place, so it is stored after them. All maps before the older of the
//! last two are deleted before the commits that follow them (see `recovery::opening`), and objects after two maps
//! do not name them. A writer that was cut off may have stored maps that this mount has not seen, so each time all
//! maps are listed. A listing that has the new map is current enough: a map that it lacks was stored later, and no
//! mount begins with that one, as it finds newer ones.
use crate::fence::epoch::Session;
use crate::ids::{Epoch, LogPlace, Seq};
use crate::log::garbage::Garbage;
use crate::wire::names::ObjectId;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Epochs without a map after which one is written at unmount.
const EPOCHS_WITHOUT_MAP: u32 = 8;

/// What the writing of a map needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MapRequest {
    /// The store has all commits up to this one.
    Commits(Seq),
    /// The map is stored.
    Put(LogPlace),
    /// All maps are listed.
    List,
    /// These maps are deleted.
    Delete(Vec<LogPlace>),
    Done,
}

/// A map that is being written.
#[derive(Debug)]
struct Writing {
    place: LogPlace,
    /// Objects that it does not name.
    unnamed: Vec<ObjectId>,
    request: MapRequest,
}

#[derive(Debug)]
pub(crate) struct Maps {
    /// Maps in the store, the newest last.
    stored: Vec<LogPlace>,
    /// The last one whose unnamed objects are in the garbage.
    counted: Option<LogPlace>,
    writing: Option<Writing>,
    garbage: Garbage,
    /// Whether commits after the newest map were read when the volume was opened.
    replayed: bool,
}

impl Maps {
    pub(crate) fn new(base: LogPlace, replayed: bool, grace: Duration) -> Self {
        Self { stored: vec![base], counted: None, writing: None, garbage: Garbage::new(grace), replayed }
    }

    /// Begins to write the map of a place, which does not name some objects.
    pub(crate) fn begin(&mut self, place: LogPlace, mut unnamed: Vec<ObjectId>) -> MapRequest {
        // Of a map for which nothing was deleted. This one does not name them either.
        unnamed.extend(self.writing.take().into_iter().flat_map(|writing| writing.unnamed));
        // The same map is not written twice.
        let request = match self.stored.last() == Some(&place) {
            true => MapRequest::List,
            false => MapRequest::Commits(place.seq),
        };
        self.writing = Some(Writing { place, unnamed, request: request.clone() });
        request
    }

    /// Records that the last request has been fulfilled, with the listed maps. Returns the next one.
    pub(crate) fn step(&mut self, listed: &[LogPlace], now: Instant) -> MapRequest {
        let Some(Writing { place, unnamed, request }) = self.writing.take() else { return MapRequest::Done };
        let next = match request {
            MapRequest::Commits(_) => MapRequest::Put(place),
            MapRequest::Put(_) => {
                self.stored.push(place);
                MapRequest::List
            }
            MapRequest::List if listed.contains(&place) => {
                let kept = self.stored.iter().rev().nth(1).copied().unwrap_or_default();
                MapRequest::Delete(listed.iter().copied().filter(|&map| map < kept).collect())
            }
            // Nothing is deleted for this map.
            MapRequest::List => MapRequest::Done,
            MapRequest::Delete(deleted) => {
                self.stored.retain(|map| !deleted.contains(map));
                self.finish(place, unnamed, now);
                return MapRequest::Done;
            }
            MapRequest::Done => MapRequest::Done,
        };
        self.writing = Some(Writing { place, unnamed, request: next.clone() });
        next
    }

    fn finish(&mut self, place: LogPlace, unnamed: Vec<ObjectId>, now: Instant) {
        self.replayed = false;
        // The same map again is not another one: the map before it may still be needed.
        if self.counted.replace(place) == Some(place) {
            self.garbage.also_unnamed(unnamed);
        } else {
            self.garbage.map_stored(unnamed, now);
        }
    }

    /// Adds what earlier mounts left: the map before the base, and objects that no map names. `settled` if
    /// readers that could use them have had their grace period.
    pub(crate) fn add(
        &mut self,
        older: Option<LogPlace>,
        garbage: Vec<ObjectId>,
        settled: bool,
        now: Instant,
    ) {
        self.stored.splice(0..0, older);
        self.garbage.add(garbage, settled, now);
    }

    /// Whether commits after the newest map were read when the volume was opened.
    pub(crate) fn is_behind(&self) -> bool {
        self.replayed
    }

    /// Whether a map is to be written before the epoch of a session ends in a place.
    pub(crate) fn is_needed(&self, session: &Session, end: Seq) -> bool {
        let last = self.stored.last();
        let is_current = last == Some(&session.place(end.previous()));
        let is_far = last.is_none_or(|map| session.epoch.since(map.epoch) >= EPOCHS_WITHOUT_MAP);
        (end > Seq::FIRST && !is_current) || self.replayed || is_far
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.garbage.next_due()
    }

    /// Objects to delete now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<ObjectId> {
        self.garbage.take_due(now)
    }
}

/// State that a mount found, which decides what becomes of earlier objects.
#[derive(Debug)]
pub(crate) struct Found {
    pub base: LogPlace,
    /// Objects that the map or the commits after it name.
    pub named: HashSet<ObjectId>,
    pub seals: BTreeMap<Epoch, Seq>,
    /// Whether the map is older than the grace period of readers.
    pub settled: bool,
}

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    /// Kept until two maps do not name it.
    Tracked,
    Garbage,
}

impl Found {
    /// Of earlier maps, the one before the base, and those to delete. `None` if the listing is older than the
    /// base, or the base was deleted since.
    pub(crate) fn earlier_maps(&self, mut maps: Vec<LogPlace>) -> Option<(Option<LogPlace>, Vec<LogPlace>)> {
        let is_current = maps.contains(&self.base);
        maps.retain(|&map| map < self.base);
        is_current.then(|| (maps.pop(), maps))
    }

    /// The fate of an object, of which the commits after map `older` are kept.
    pub(crate) fn fate(&self, id: ObjectId, older: Option<LogPlace>, own: Epoch) -> Fate {
        if id.epoch() >= own {
            return Fate::Kept;
        }
        if let ObjectId::Log(place) = id {
            let is_seal = self.seals.get(&place.epoch).is_none_or(|&seal| place.seq >= seal);
            if is_seal {
                return Fate::Kept;
            }
            if place > older.unwrap_or(self.base) {
                return Fate::Tracked;
            }
        }
        if self.named.contains(&id) { Fate::Tracked } else { Fate::Garbage }
    }
}
