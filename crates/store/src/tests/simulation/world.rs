//! One run: events, and what is checked.
use super::history::{GEOMETRY, History, VOLUME};
use super::mount::{Event, Mount, VOLUME_RECORD};
use super::network::Network;
use crate::ids::LogPlace;
use crate::log::map::Map;
use crate::log::map_record::encode_map;
use crate::log::recovery::opening::{Answer, Goal, Opening, Request};
use crate::wire::names::{Name, ObjectId};
use segno_testkit::Rng;
use std::collections::BTreeMap;

/// Mounts at a time.
const MOUNTS: usize = 3;

/// What happened in runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    opened: u64,
    acknowledged: u64,
    fenced: u64,
    closed: u64,
    killed: u64,
    repeated: u64,
    late: u64,
    audits: u64,
    refused: u64,
}

impl Ended {
    pub(super) fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.acknowledged += other.acknowledged;
        self.fenced += other.fenced;
        self.closed += other.closed;
        self.killed += other.killed;
        self.repeated += other.repeated;
        self.late += other.late;
        self.audits += other.audits;
        self.refused += other.refused;
    }

    pub(super) fn reaches_everything(&self) -> bool {
        let all = [self.opened, self.acknowledged, self.fenced, self.closed, self.killed, self.repeated];
        all.into_iter().chain([self.late, self.audits, self.refused]).all(|n| n > 0)
    }
}

pub(super) struct World {
    network: Network,
    history: History,
    mounts: BTreeMap<usize, Mount>,
    next_mount: usize,
    traced: bool,
    pub trace: Vec<String>,
    ended: Ended,
}

impl World {
    pub(super) fn new(traced: bool) -> Self {
        let mut network = Network::default();
        let map = encode_map(&Map::new(GEOMETRY), &VOLUME, LogPlace::default());
        network.put(Name::Map(LogPlace::default()), map);
        Self {
            network,
            history: History::new(),
            mounts: BTreeMap::new(),
            next_mount: 0,
            traced,
            trace: Vec::new(),
            ended: Ended::default(),
        }
    }

    fn note(&mut self, what: impl FnOnce(&Network) -> String) {
        if self.traced {
            self.trace.push(what(&self.network));
        }
    }

    /// One event: its number decides what happens.
    pub(super) fn step(&mut self, event: u64) -> Result<(), String> {
        let mut rng = Rng::new(event);
        self.network.step += 1;
        match rng.below(100) {
            0..2 => self.mount(rng.chance(70)),
            2 => self.kill(&mut rng),
            3 => self.network.step += rng.below(40),
            4..30 => self.work(&mut rng),
            _ => self.deliver(&mut rng)?,
        }
        Ok(())
    }

    fn mount(&mut self, takeover: bool) {
        if self.mounts.len() < MOUNTS {
            let id = self.next_mount;
            self.next_mount += 1;
            self.note(|_| format!("mount {id}, takeover {takeover}"));
            self.mounts.insert(id, Mount::new(id, takeover, &mut self.network));
        }
    }

    fn kill(&mut self, rng: &mut Rng) {
        if let Some(&id) = rng.choose(&self.mounts.keys().copied().collect::<Vec<_>>()) {
            self.note(|_| format!("kill mount {id}"));
            self.ended.killed += 1;
            self.stop(id);
        }
    }

    fn stop(&mut self, id: usize) {
        self.mounts.remove(&id);
        self.network.abandon(id);
    }

    /// A mount that acts or is answered. Over many events it is the same one more often than others, which may
    /// take any time for what they do.
    fn busy(&self, rng: &mut Rng) -> Option<usize> {
        let ids: Vec<usize> = self.mounts.keys().copied().collect();
        let turn = (self.network.step / 64) as usize % ids.len().max(1);
        if rng.chance(75) { ids.get(turn).copied() } else { rng.choose(&ids).copied() }
    }

    /// A program writes or flushes, or the mount works in the background.
    fn work(&mut self, rng: &mut Rng) {
        let Some(id) = self.busy(rng) else { return self.mount(true) };
        let Some(writer) = self.mounts.get_mut(&id).and_then(Mount::writer) else { return };
        let (network, history) = (&mut self.network, &mut self.history);
        let what = match rng.below(16) {
            0..7 => {
                writer.write(id, rng, network, history);
                "write"
            }
            7..11 => {
                writer.flush(id, network, history);
                "flush"
            }
            11 => {
                for _ in 0..rng.between(2, 8) {
                    writer.write(id, rng, network, history);
                    writer.flush(id, network, history);
                }
                "write and flush several times"
            }
            12..14 => {
                writer.write_map(id, network, history);
                "write a map"
            }
            14 => {
                writer.delete_due(id, network);
                "delete"
            }
            _ => {
                writer.close(id, network);
                "close"
            }
        };
        self.note(|_| format!("mount {id}: {what}"));
    }

    /// A request arrives at the store, its answer arrives, or either is lost.
    fn deliver(&mut self, rng: &mut Rng) -> Result<(), String> {
        if self.network.flights.is_empty() {
            return Ok(());
        }
        let busy = self.busy(rng);
        let of_busy = |&at: &usize| self.network.flights[at].to.map(|(id, _)| id) == busy;
        let all = 0..self.network.flights.len();
        let mut some: Vec<usize> = all.clone().filter(of_busy).collect();
        if some.is_empty() || rng.chance(15) {
            some = all.collect();
        }
        // The oldest more often than others.
        let at = some[if rng.one_in(2) { rng.index(some.len().min(3)) } else { rng.index(some.len()) }];
        let is_answered = self.network.flights[at].reply.is_some();
        if self.network.flights[at].to.is_some() && rng.chance(6) {
            self.note(|network| format!("lost: {}", network.describe(at)));
            self.ended.repeated += 1;
            self.network.repeat(at, rng);
            return Ok(());
        }
        if !is_answered {
            self.note(|network| format!("arrives: {}", network.describe(at)));
            let is_late = self.network.flights[at].to.is_none();
            self.ended.late += u64::from(is_late);
            let is_risky = self.network.arrive(at, rng);
            if is_late {
                self.network.flights.remove(at);
            }
            if is_risky {
                self.audit()?;
            }
            // In most cases the answer follows at once.
            if is_late || rng.one_in(3) {
                return Ok(());
            }
        }
        self.answer(at)
    }

    fn answer(&mut self, at: usize) -> Result<(), String> {
        let flight = self.network.flights.remove(at);
        let (Some((id, token)), Some(reply)) = (flight.to, flight.reply) else { return Ok(()) };
        let live: Vec<usize> = self.mounts.keys().copied().collect();
        let Some(mount) = self.mounts.get_mut(&id) else { return Ok(()) };
        let lives = |id| live.contains(&id);
        let event = mount.answer(token, reply, &mut self.network, &mut self.history, &lives)?;
        match &event {
            Event::Nothing => return Ok(()),
            Event::Opened => self.ended.opened += 1,
            Event::Acknowledged(_) => self.ended.acknowledged += 1,
            Event::Stopped(why) => {
                self.ended.fenced += u64::from(why == "fenced");
                self.ended.closed += u64::from(why == "closed");
                self.stop(id);
            }
        }
        self.note(|_| format!("mount {id}: {event:?}"));
        Ok(())
    }

    /// Reads the state of the store as it is at this moment.
    fn audit(&mut self) -> Result<(), String> {
        self.ended.audits += 1;
        let mut opening = Opening::new(Goal::Read);
        let mut request = Request::Maps;
        let place = |name: &Name| name.place();
        loop {
            let maps = self.network.names().filter(|name| matches!(name, Name::Map(_)));
            let answer = match request {
                Request::Maps => Answer::Maps(VOLUME_RECORD, maps.filter_map(|name| place(&name)).collect()),
                Request::Base(base, _) => {
                    let epoch = |name| if let Name::Epoch(epoch) = name { Some(epoch) } else { None };
                    let log = self.network.names().filter(|name| match name {
                        Name::Object(ObjectId::Log(place)) => *place > base,
                        _ => false,
                    });
                    Answer::Base {
                        map: Ok(self.network.get(Name::Map(base)).cloned()),
                        epochs: self.network.names().filter_map(epoch).filter(|e| *e >= base.epoch).collect(),
                        listed: log.filter_map(|name| place(&name)).collect(),
                    }
                }
                Request::Objects(places) => {
                    request = self.read(&mut opening, &places)?;
                    continue;
                }
                Request::Object(place) => Answer::Object(place, self.network.get(Name::log(place)).cloned()),
                Request::Confirm(map) => Answer::Confirmed(self.network.get(Name::Map(map)).is_some()),
                Request::Done(opened) => {
                    let found = opened.replay.recovered(None);
                    let tip = self.history.check(&found.map, found.next, None)?;
                    return self.history.compare(&found.map, &self.network, tip);
                }
                other => return Err(format!("a reader asks for {other:?}")),
            };
            request = opening.step(answer).map_err(|e| format!("a reader: {e}"))?;
        }
    }

    fn read(&self, opening: &mut Opening, places: &[LogPlace]) -> Result<Request, String> {
        for &place in places {
            let bytes = self.network.get(Name::log(place)).cloned();
            match opening.step(Answer::Object(place, bytes)).map_err(|e| format!("a reader: {e}"))? {
                Request::NextObject => {}
                other => return Ok(other),
            }
        }
        opening.step(Answer::NoMoreObjects).map_err(|e| format!("a reader: {e}"))
    }

    /// Lets all requests arrive, and mounts once more.
    pub(super) fn end(&mut self) -> Result<Ended, String> {
        self.audit()?;
        for id in self.mounts.keys().copied().collect::<Vec<_>>() {
            self.stop(id);
        }
        // A late request of an ended mount may take the epoch of the next one.
        let mut rng = Rng::new(self.network.step);
        while !self.open_last(&mut rng)? {
            self.ended.refused += 1;
        }
        self.audit()?;
        Ok(self.ended)
    }

    /// Mounts, and lets the mount open the volume. `false` if it is refused.
    fn open_last(&mut self, rng: &mut Rng) -> Result<bool, String> {
        let id = self.next_mount;
        self.mount(true);
        while let Some(mount) = self.mounts.get_mut(&id) {
            if mount.writer().is_some() {
                return Ok(true);
            }
            let at = rng.index(self.network.flights.len());
            if self.network.flights[at].reply.is_none() {
                // Listings are current now.
                self.network.step += 100;
                self.network.arrive(at, rng);
            }
            self.answer(at)?;
        }
        Ok(false)
    }
}
