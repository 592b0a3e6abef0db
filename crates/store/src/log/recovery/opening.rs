//! The decisions of opening a volume, without I/O: the newest map, the log after it, the epoch of this mount,
//! and the seals that end all earlier epochs. Each answer of the store gives the next request.
//!
//! A seal counts only if the map from which the log was read still exists afterwards. Maps are deleted before
//! the commits that follow them. So if the map exists, no commit after it can have been deleted before the
//! seal was created, and the log really ended there. No listing has to be current for that. An epoch gets a seal
//! after the ends of all lower ones were confirmed so. So an object in the log of an epoch proves that the log of
//! each lower epoch has ended for good.
use crate::fence::epoch::{EpochClaim, Session};
use crate::fence::owner::{CacheId, Owner};
use crate::ids::{Epoch, LogPlace};
use crate::log::commit::WINDOW;
use crate::log::recovery::replay::{Effect, Replay};
use crate::log::volume::Volume;
use crate::wire::names::Name;
use crate::wire::remote::Created;
use crate::{Result, StoreError};
use bytes::Bytes;
use std::collections::VecDeque;

/// Epochs that a listing may omit, as it is not current.
const EPOCHS_UNLISTED: u64 = 1024;
/// Times that the objects may change under a mount before it is refused.
pub(crate) const ATTEMPTS: u32 = 10;

/// Purpose of an opening.
#[derive(Clone, Debug)]
pub(crate) enum Goal {
    /// Read the last state.
    Read,
    /// Take the volume.
    Write(EpochClaim),
    /// Read the state at the end of an epoch.
    Epoch(Epoch),
}

/// What an opening needs next.
#[derive(Debug)]
pub(crate) enum Request {
    /// The object `volume`, and the places of all maps in order.
    Maps,
    /// A map of up to this many bytes, the epochs from its own on, and the objects of the log after it.
    Base(LogPlace, u64),
    /// Objects of the log, one after the other.
    Objects(Vec<LogPlace>),
    /// The next of these objects.
    NextObject,
    /// One object of the log.
    Object(LogPlace),
    /// The owner of an epoch.
    Owner(Epoch),
    /// The object that gives an epoch to a session, with the cache that it names.
    Claim(Session, Option<CacheId>),
    /// A seal that this session creates.
    Seal(Session, LogPlace),
    /// Whether a map still exists.
    Confirm(LogPlace),
    Done(Box<Opened>),
}

/// Result of an opening.
#[derive(Debug)]
pub(crate) struct Opened {
    pub replay: Replay,
    pub session: Option<Session>,
    /// An epoch that was ended though its owner may be alive.
    pub taken_over: Option<Epoch>,
}

/// An answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    Maps(Volume, Vec<LogPlace>),
    Base {
        /// An error if it is damaged.
        map: Result<Option<Bytes>>,
        epochs: Vec<Epoch>,
        listed: Vec<LogPlace>,
    },
    /// An object of the log, if it exists and is not too long to be read with others.
    Object(LogPlace, Option<Bytes>),
    /// All of the objects were read.
    NoMoreObjects,
    /// The owner, and whether its process has certainly ended.
    Owner(Option<(Owner, bool)>),
    Claimed(Session, Created),
    Sealed(Created),
    Confirmed(bool),
}

/// What the next answer is about.
#[derive(Debug, Default)]
enum Waiting {
    #[default]
    Base,
    /// Objects that were listed.
    Objects,
    /// The object of the present place, which was not listed.
    Place,
    /// Later objects, which may prove that the damaged or missing object of the present place was stored.
    Proof(StoreError, VecDeque<LogPlace>),
    /// Whether a loss that is proven is one: without the map, a missing commit was deleted because a newer
    /// map covers it.
    Loss(StoreError),
    /// Whether the logs that were read ended where they seemed to, before another one is ended.
    Lower,
    /// The same of all logs.
    End,
}

/// A volume that is being opened.
#[derive(Debug)]
pub(crate) struct Opening {
    goal: Goal,
    attempts: u32,
    waiting: Waiting,
    volume: Volume,
    /// Maps to begin with, the best last.
    bases: Vec<LogPlace>,
    /// Last epoch to be read.
    last: Epoch,
    /// Whether the ends of all epochs before the present place are confirmed.
    is_confirmed: bool,
    replay: Replay,
    session: Option<Session>,
    taken_over: Option<Epoch>,
}

impl Opening {
    /// The first request is [`Request::Maps`].
    pub(crate) fn new(goal: Goal) -> Self {
        Self {
            goal,
            attempts: 1,
            waiting: Waiting::Base,
            volume: Volume::default(),
            bases: Vec::new(),
            last: Epoch::MKFS,
            is_confirmed: true,
            replay: Replay::default(),
            session: None,
            taken_over: None,
        }
    }

    /// Takes an answer, and decides what is needed next.
    pub(crate) fn step(&mut self, answer: Answer) -> Result<Request> {
        match (std::mem::take(&mut self.waiting), answer) {
            (_, Answer::Maps(volume, maps)) => self.choose_bases(volume, maps),
            (_, Answer::Base { map: Ok(None), .. }) => self.restart(),
            (_, Answer::Base { map: Err(damage), .. }) => {
                self.bases.pop();
                self.next_base(damage)
            }
            (_, Answer::Base { map: Ok(Some(map)), epochs, listed }) => self.begin(&map, &epochs, listed),
            (Waiting::Objects, Answer::Object(place, bytes)) => self.listed(place, bytes),
            (Waiting::Objects, Answer::NoMoreObjects) => self.after_listed(),
            (Waiting::Place, Answer::Object(_, Some(bytes))) => match self.replay.apply(&bytes)? {
                Effect::Applied => self.read_on(),
                effect => self.ended(effect),
            },
            (Waiting::Place, Answer::Object(place, None)) => {
                self.prove(StoreError::Lost { object: Name::log(place).to_string() })
            }
            (Waiting::Proof(damage, rest), Answer::Object(place, bytes)) => {
                match self.replay.is_marked_by(place, &bytes.unwrap_or_default()) {
                    true => Ok(self.confirm(Waiting::Loss(damage))),
                    false => self.next_proof(damage, rest),
                }
            }
            (_, Answer::Owner(found)) => self.admit(found),
            (_, Answer::Claimed(session, Created::Ours)) => {
                self.session = Some(session);
                self.read_on()
            }
            (_, Answer::Claimed(Session { epoch, .. }, Created::Other(bytes))) => {
                let owner = Owner::decode(epoch, &bytes)?.describe();
                Err(StoreError::LostRace { epoch: epoch.get(), owner })
            }
            (_, Answer::Sealed(Created::Ours)) => self.ended(Effect::Sealed),
            (_, Answer::Sealed(Created::Other(bytes))) => match self.replay.apply(&bytes)? {
                // The commit was created first. After the seal its writer creates none.
                Effect::Applied => self.open_end(),
                effect => self.ended(effect),
            },
            (Waiting::Loss(damage), Answer::Confirmed(true)) => Err(damage),
            (Waiting::End, Answer::Confirmed(true)) => Ok(self.done()),
            (Waiting::Lower, Answer::Confirmed(true)) => {
                self.is_confirmed = true;
                self.open_end()
            }
            (_, Answer::Confirmed(_)) => self.restart(),
            (_, Answer::Object(..) | Answer::NoMoreObjects) => {
                Err(StoreError::Runtime("an answer without a request".into()))
            }
        }
    }

    fn restart(&mut self) -> Result<Request> {
        if self.attempts >= ATTEMPTS {
            return Err(StoreError::Unsettled(ATTEMPTS));
        }
        self.attempts += 1;
        Ok(Request::Maps)
    }

    /// The map before the newest, with the commits after it, gives the same state.
    fn choose_bases(&mut self, volume: Volume, mut maps: Vec<LogPlace>) -> Result<Request> {
        let mut kept = 2;
        if let Goal::Epoch(epoch) = self.goal {
            maps.retain(|place| place.epoch <= epoch);
            kept = 1;
        }
        (self.volume, self.bases) = (volume, maps.split_off(maps.len().saturating_sub(kept)));
        self.next_base(StoreError::Missing { object: "map".into() })
    }

    fn next_base(&self, damage: StoreError) -> Result<Request> {
        let most = self.volume.geometry.map_bytes_max();
        self.bases.last().map(|&base| Request::Base(base, most)).ok_or(damage)
    }

    fn begin(&mut self, map: &[u8], epochs: &[Epoch], listed: Vec<LogPlace>) -> Result<Request> {
        let base = self.bases.pop().unwrap_or_default();
        let last = epochs.last().copied().unwrap_or(base.epoch);
        // Each of them gets an end, so their number must be limited.
        let read = if u64::from(last.since(base.epoch)) > epochs.len() as u64 + EPOCHS_UNLISTED {
            Err(StoreError::corrupt(Name::Epoch(last), "the epochs before it are missing"))
        } else {
            Replay::new(self.volume, base, map, listed)
        };
        self.replay = match read {
            Err(e @ StoreError::Corrupt { .. }) => return self.next_base(e),
            other => other?,
        };
        self.is_confirmed = true;
        self.last = match (&self.goal, self.session) {
            (_, Some(session)) => session.epoch.previous().unwrap_or_default(),
            (Goal::Epoch(epoch), None) => *epoch,
            _ => last,
        };
        self.read_on()
    }

    /// Reads on from the present place.
    fn read_on(&mut self) -> Result<Request> {
        if self.replay.place.epoch == Epoch::MKFS {
            self.replay.end_epoch()?;
        }
        if self.replay.place.epoch > self.last {
            return self.all_ended();
        }
        let listed = self.replay.listed();
        if listed.is_empty() {
            return self.after_listed();
        }
        self.waiting = Waiting::Objects;
        Ok(Request::Objects(listed))
    }

    /// An object that was listed.
    fn listed(&mut self, place: LogPlace, bytes: Option<Bytes>) -> Result<Request> {
        self.waiting = Waiting::Objects;
        // An earlier commit takes this place as well.
        if place < self.replay.place {
            return Ok(Request::NextObject);
        }
        let Some(bytes) = bytes.filter(|_| place == self.replay.place) else { return self.after_listed() };
        match self.replay.apply(&bytes)? {
            Effect::Applied => Ok(Request::NextObject),
            effect => self.ended(effect),
        }
    }

    /// The listed objects that follow without a gap were read. A listing is not atomic: the present place may
    /// have been taken after it was listed.
    fn after_listed(&mut self) -> Result<Request> {
        if !self.replay.is_followed() {
            return self.open_end();
        }
        self.waiting = Waiting::Place;
        Ok(Request::Object(self.replay.place))
    }

    /// The epoch ends with a seal, or with an object whose writer was cut off.
    fn ended(&mut self, effect: Effect) -> Result<Request> {
        if let Effect::Damaged(damage) = effect {
            return self.prove(damage);
        }
        self.is_confirmed = false;
        self.replay.end_epoch()?;
        self.read_on()
    }

    /// Looks for proof that the damaged or missing object of the present place was stored as a whole.
    fn prove(&mut self, damage: StoreError) -> Result<Request> {
        let (here, later): (VecDeque<LogPlace>, VecDeque<LogPlace>) =
            self.replay.listed().into_iter().partition(|&place| place == self.replay.place);
        if later.len() as u64 >= WINDOW || (is_missing(&damage) && !here.is_empty()) {
            return Ok(self.confirm(Waiting::Loss(damage)));
        }
        self.next_proof(damage, later)
    }

    fn next_proof(&mut self, damage: StoreError, mut rest: VecDeque<LogPlace>) -> Result<Request> {
        if let Some(place) = rest.pop_front() {
            self.waiting = Waiting::Proof(damage, rest);
            return Ok(Request::Object(place));
        }
        // The next epoch has no commit before this one has ended. A truncated object also ends it.
        if is_missing(&damage) && self.replay.has_later_epoch() {
            return Ok(self.confirm(Waiting::Loss(damage)));
        }
        self.cut_off(&damage)
    }

    /// The writer of the present place was cut off before its commit was acknowledged.
    fn cut_off(&mut self, damage: &StoreError) -> Result<Request> {
        if is_missing(damage) { self.open_end() } else { self.ended(Effect::Sealed) }
    }

    /// The epoch of the present place has no end.
    fn open_end(&mut self) -> Result<Request> {
        match (&self.goal, self.session) {
            (_, Some(_)) if !self.is_confirmed => Ok(self.confirm(Waiting::Lower)),
            (_, Some(session)) => Ok(Request::Seal(session, self.replay.place)),
            (Goal::Read, None) => Ok(self.done()),
            (Goal::Write(claim), None) if claim.takeover => {
                self.taken_over = Some(self.last);
                self.claim()
            }
            (Goal::Write(_), None) => Ok(Request::Owner(self.last)),
            (Goal::Epoch(epoch), None) if self.replay.place.epoch == *epoch => Ok(self.confirm(Waiting::End)),
            (Goal::Epoch(_), None) => self.restart(),
        }
    }

    /// All epochs have an end.
    fn all_ended(&mut self) -> Result<Request> {
        match (&self.goal, self.session) {
            (Goal::Read, _) => Ok(self.done()),
            (Goal::Write(_), None) => self.claim(),
            (Goal::Write(_), Some(_)) | (Goal::Epoch(_), _) => Ok(self.confirm(Waiting::End)),
        }
    }

    fn admit(&mut self, found: Option<(Owner, bool)>) -> Result<Request> {
        if let (Goal::Write(claim), Some((owner, has_ended))) = (&self.goal, found) {
            claim.admit(self.last, &owner, has_ended)?;
        }
        self.claim()
    }

    fn claim(&self) -> Result<Request> {
        let Goal::Write(claim) = &self.goal else { return Err(StoreError::ended()) };
        let own = self.last.next();
        let own = own.map_err(|_| StoreError::corrupt(Name::Epoch(self.last), "no epoch can follow it"))?;
        let cache = claim.cache.clone().filter(|_| claim.writeback);
        Ok(Request::Claim(self.volume.session(own, claim.id), cache))
    }

    fn confirm(&mut self, waiting: Waiting) -> Request {
        self.waiting = waiting;
        Request::Confirm(self.replay.base)
    }

    fn done(&mut self) -> Request {
        let (replay, session) = (std::mem::take(&mut self.replay), self.session);
        Request::Done(Box::new(Opened { replay, session, taken_over: self.taken_over }))
    }
}

fn is_missing(damage: &StoreError) -> bool {
    matches!(damage, StoreError::Lost { .. })
}
