//! A mount: the state machines of the crate, with a driver whose requests go through the network.
use super::history::{GEOMETRY, History, VOLUME, Values};
use super::network::{Network, Op, Reply};
use crate::fence::epoch::{EpochClaim, Session};
use crate::fence::owner::Owner;
use crate::ids::LogPlace;
use crate::log::commit::{self, Marks};
use crate::log::commits::Commits;
use crate::log::maps::{Fate, Found, MapRequest, Maps};
use crate::log::recovery::opening::{Answer, Goal, Opened, Opening, Request};
use crate::log::state::{Group, State, Upload};
use crate::log::volume::Volume;
use crate::wire::names::Name;
use crate::wire::pieces;
use crate::wire::remote::Created;
use crate::{Result, StoreError};
use bytes::Bytes;
use segno_format::{BLOCK_SIZE, Block};
use segno_testkit::Rng;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

pub(super) const VOLUME_RECORD: Volume =
    Volume { id: VOLUME, geometry: GEOMETRY, unfenced: false, marked: true };

/// What happened to a mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    Nothing,
    /// It has opened the volume.
    Opened,
    /// All commits up to this one are acknowledged.
    Acknowledged(LogPlace),
    /// It stopped, for this reason.
    Stopped(String),
}

/// Requests whose answers the opening waits for, in order.
struct Asked {
    request: Request,
    answers: VecDeque<(u64, Option<Reply>)>,
}

/// Purpose of a request of a writer.
enum Purpose {
    Data(Upload),
    Commit(Group),
    Map,
    ListMaps,
    DeleteMap,
    Delete,
    Seal,
    SweepMaps,
    SweepOldMap,
    SweepObjects,
}

enum Phase {
    Opening(Box<Opening>, Asked),
    Writing(Box<Writer>),
}

/// A mount that lives.
pub(super) struct Mount {
    id: usize,
    phase: Phase,
}

/// A mount that has opened the volume.
pub(super) struct Writer {
    session: Session,
    state: State,
    commits: Commits,
    maps: Maps,
    purposes: HashMap<u64, Purpose>,
    /// The map that is being written, and the requests that its next step waits for.
    map: Option<(MapRequest, Bytes)>,
    deletions: usize,
    found: Found,
    /// The map before that of the state that was found.
    older: Option<LogPlace>,
    values: Values,
    /// The last commit that was closed.
    tip: usize,
    begun: Instant,
}

fn id_of(mount: usize) -> [u8; 16] {
    (mount as u128 + 1).to_le_bytes()
}

/// The mount of a session.
fn mount_of(id: [u8; 16]) -> usize {
    u128::from_le_bytes(id) as usize - 1
}

impl Mount {
    pub(super) fn new(id: usize, takeover: bool, network: &mut Network) -> Self {
        let claim = EpochClaim { id: id_of(id), takeover, ..EpochClaim::default() };
        let asked = ask(id, Request::Maps, network);
        Self { id, phase: Phase::Opening(Box::new(Opening::new(Goal::Write(claim))), asked) }
    }

    pub(super) fn writer(&mut self) -> Option<&mut Writer> {
        match &mut self.phase {
            Phase::Writing(writer) => Some(writer),
            Phase::Opening(..) => None,
        }
    }

    /// Takes the answer to a request. `lives` says which mounts do.
    pub(super) fn answer(
        &mut self,
        token: u64,
        reply: Reply,
        network: &mut Network,
        history: &mut History,
        lives: &dyn Fn(usize) -> bool,
    ) -> Result<Event, String> {
        let opened = match &mut self.phase {
            Phase::Writing(writer) => return writer.answer(self.id, token, reply, network, history),
            Phase::Opening(opening, asked) => {
                let Some(slot) = asked.answers.iter_mut().find(|(of, _)| *of == token) else {
                    return Ok(Event::Nothing);
                };
                slot.1 = Some(reply);
                match go_on(opening, asked, lives) {
                    Ok(None) => return Ok(Event::Nothing),
                    Ok(Some(Request::Done(opened))) => opened,
                    Ok(Some(request)) => {
                        *asked = ask(self.id, request, network);
                        return Ok(Event::Nothing);
                    }
                    Err(e) if is_passing(&e) => return Ok(Event::Stopped(e.to_string())),
                    Err(e) => return Err(format!("mount {}: {e}", self.id)),
                }
            }
        };
        self.phase = Phase::Writing(Box::new(Writer::new(self.id, *opened, network, history)?));
        Ok(Event::Opened)
    }
}

/// Whether other mounts, or listings that are not current, are the reason.
fn is_passing(e: &StoreError) -> bool {
    use StoreError::{Held, LostRace, Missing, Unsettled};
    matches!(e, Held { .. } | LostRace { .. } | Missing { .. } | Unsettled(_))
}

/// Sends what a request needs.
fn ask(mount: usize, request: Request, network: &mut Network) -> Asked {
    let owner = |id| Owner { session: id, host: "h".into(), boot: "b".into(), pid: 1, cache: None }.encode();
    let ops = match &request {
        Request::Maps => vec![Op::Maps],
        Request::Base(map, _) => {
            vec![Op::Get(Name::Map(*map)), Op::Epochs(map.epoch.previous()), Op::Log(*map)]
        }
        Request::Objects(places) => places.iter().map(|&place| Op::Get(Name::log(place))).collect(),
        Request::Object(place) => vec![Op::Get(Name::log(*place))],
        Request::Owner(epoch) => vec![Op::Get(Name::Epoch(*epoch))],
        Request::Claim(session, _) => vec![Op::Create(Name::Epoch(session.epoch), owner(session.id))],
        Request::Seal(by, place) => vec![Op::Create(Name::log(*place), commit::seal(by, *place))],
        Request::Confirm(map) => vec![Op::Get(Name::Map(*map))],
        Request::NextObject | Request::Done(_) => Vec::new(),
    };
    let answers = ops.into_iter().map(|op| (network.send(mount, op), None)).collect();
    Asked { request, answers }
}

/// Passes complete answers to the opening. Returns its next request.
fn go_on(opening: &mut Opening, asked: &mut Asked, lives: &dyn Fn(usize) -> bool) -> Result<Option<Request>> {
    if let Request::Objects(places) = &mut asked.request {
        while let Some((_, Some(reply))) = asked.answers.front() {
            let Reply::Got(bytes) = reply else { unreachable!() };
            match opening.step(Answer::Object(places.remove(0), bytes.clone()))? {
                Request::NextObject => {}
                other => return Ok(Some(other)),
            }
            asked.answers.pop_front();
        }
        return if asked.answers.is_empty() {
            opening.step(Answer::NoMoreObjects).map(Some)
        } else {
            Ok(None)
        };
    }
    if asked.answers.iter().any(|(_, reply)| reply.is_none()) {
        return Ok(None);
    }
    let mut replies = asked.answers.drain(..).filter_map(|(_, reply)| reply);
    let place = |name: Name| name.place();
    let answer = match (&asked.request, replies.next(), replies.next(), replies.next()) {
        (Request::Maps, Some(Reply::Names(maps)), ..) => {
            Answer::Maps(VOLUME_RECORD, maps.into_iter().filter_map(place).collect())
        }
        (
            Request::Base(..),
            Some(Reply::Got(map)),
            Some(Reply::Names(epochs)),
            Some(Reply::Names(listed)),
        ) => {
            let epoch = |name| if let Name::Epoch(epoch) = name { Some(epoch) } else { None };
            let epochs = epochs.into_iter().filter_map(epoch).collect();
            Answer::Base { map: Ok(map), epochs, listed: listed.into_iter().filter_map(place).collect() }
        }
        (Request::Object(place), Some(Reply::Got(bytes)), ..) => Answer::Object(*place, bytes),
        (Request::Owner(epoch), Some(Reply::Got(bytes)), ..) => {
            let owner = bytes.map(|bytes| Owner::decode(*epoch, &bytes)).transpose()?;
            Answer::Owner(owner.map(|owner| {
                let has_ended = !lives(mount_of(owner.session));
                (owner, has_ended)
            }))
        }
        (Request::Claim(session, _), Some(Reply::Created(created)), ..) => Answer::Claimed(*session, created),
        (Request::Seal(..), Some(Reply::Created(created)), ..) => Answer::Sealed(created),
        (Request::Confirm(_), Some(Reply::Got(map)), ..) => Answer::Confirmed(map.is_some()),
        (request, ..) => panic!("another answer to {request:?}"),
    };
    opening.step(answer).map(Some)
}

impl Writer {
    fn new(
        mount: usize,
        opened: Opened,
        network: &mut Network,
        history: &mut History,
    ) -> Result<Self, String> {
        let Opened { replay, session, .. } = opened;
        let recovered = replay.recovered(session);
        let session = recovered.session.unwrap();
        let tip = history.check(&recovered.map, recovered.next, Some(session.epoch))?;
        history.found(session.epoch, tip);
        // A mount that was overtaken meanwhile may miss objects.
        let newest = network.names().filter(|name| matches!(name, Name::Epoch(_))).max();
        if newest == Some(Name::Epoch(session.epoch)) {
            history.compare(&recovered.map, network, tip)?;
        }
        let found = Found {
            base: recovered.base,
            named: recovered.map.named().map(|(_, object)| object.id).collect(),
            seals: recovered.map.seals.clone(),
            settled: mount.is_multiple_of(3),
        };
        let grace = Duration::from_secs(mount as u64 % 4 * 10);
        let mut purposes = HashMap::new();
        purposes.insert(network.send(mount, Op::Maps), Purpose::SweepMaps);
        Ok(Self {
            session,
            state: State::new(recovered.map, session.epoch),
            commits: Commits::default(),
            maps: Maps::new(recovered.base, recovered.replayed > 0, grace),
            purposes,
            map: None,
            deletions: 0,
            found,
            older: None,
            values: history.values(tip),
            tip,
            begun: Instant::now(),
        })
    }

    fn now(&self, network: &Network) -> Instant {
        self.begun + Duration::from_secs(network.step)
    }

    fn send(&mut self, mount: usize, op: Op, purpose: Purpose, network: &mut Network) {
        self.purposes.insert(network.send(mount, op), purpose);
    }

    /// Writes some blocks, or resets a zone.
    pub(super) fn write(
        &mut self,
        mount: usize,
        rng: &mut Rng,
        network: &mut Network,
        history: &mut History,
    ) {
        let zone = rng.below(GEOMETRY.zones.into()) as u32;
        let size = u64::from(GEOMETRY.zone_blocks);
        let start = GEOMETRY.start_of(zone);
        let pointer = u64::from(self.state.map.zone(zone).map_or(0, |zone| zone.pointer));
        let uploads = if GEOMETRY.is_conventional(zone) {
            self.write_blocks(start + rng.below(size), 1, history)
        } else if pointer == size || rng.one_in(8) {
            self.values[start as usize..(start + size) as usize].fill(0);
            self.state.reset(zone).into_iter().collect()
        } else {
            self.write_blocks(start + pointer, rng.between(1, size - pointer), history)
        };
        self.start(mount, uploads, network);
    }

    fn write_blocks(&mut self, addr: u64, count: u64, history: &mut History) -> Vec<Upload> {
        let blocks: Vec<Block> = (addr..addr + count)
            .map(|at| {
                let value = history.value();
                self.values[at as usize] = value;
                let mut block = Block::zeroed();
                block.0[..8].copy_from_slice(&value.to_le_bytes());
                block
            })
            .collect();
        self.state.write(addr, &blocks.iter().collect::<Vec<_>>()).unwrap().0
    }

    fn start(&mut self, mount: usize, uploads: Vec<Upload>, network: &mut Network) {
        for upload in uploads {
            self.commits.data_begun(upload.id);
            let blocks = upload.content.len() / BLOCK_SIZE;
            let mut bytes = Vec::with_capacity(pieces::encoded_len(blocks as u32));
            pieces::encode(&VOLUME, upload.id, &[&upload.content], &mut bytes);
            let op = Op::Put(Name::Object(upload.id), bytes.into());
            self.send(mount, op, Purpose::Data(upload), network);
        }
    }

    /// Closes the open group, if it has changes and the window has room.
    pub(super) fn flush(&mut self, mount: usize, network: &mut Network, history: &mut History) {
        if self.state.is_unchanged() || !self.commits.has_room() {
            return;
        }
        let group = self.state.close().unwrap();
        self.tip = history.close(self.session.place(group.seq), self.tip, self.values.clone());
        self.start(mount, group.uploads.clone(), network);
        let complete = self.commits.close(group);
        self.create(mount, complete, network);
    }

    fn create(&mut self, mount: usize, complete: Option<Group>, network: &mut Network) {
        let Some(group) = complete else { return };
        let acknowledged = self.commits.acknowledged();
        let marks = Marks { stored: acknowledged, acknowledged };
        let inline: Vec<&[u8]> = group.inline.iter().map(|(_, content)| content.as_slice()).collect();
        let bytes = commit::commit(&self.session, marks, group.seq, &group.ops, &inline);
        let op = Op::Create(Name::log(self.session.place(group.seq)), bytes);
        self.send(mount, op, Purpose::Commit(group), network);
    }

    /// Begins to write a map of the present state.
    pub(super) fn write_map(&mut self, mount: usize, network: &mut Network, history: &mut History) {
        self.flush(mount, network, history);
        if self.map.is_some() || !self.state.is_unchanged() {
            return;
        }
        let (bytes, unnamed) = self.state.describe(&self.session);
        let place = self.session.place(self.state.seq.previous());
        self.map = Some((self.maps.begin(place, unnamed), bytes));
        self.go_on_with_map(mount, network);
    }

    /// Performs the request of the map that is being written, or waits for commits.
    fn go_on_with_map(&mut self, mount: usize, network: &mut Network) {
        while let Some((request, bytes)) = self.map.take() {
            match &request {
                MapRequest::Commits(seq) if self.commits.acknowledged() >= *seq => {}
                MapRequest::Commits(_) => {
                    self.map = Some((request, bytes));
                    return;
                }
                MapRequest::Put(place) => {
                    self.send(mount, Op::Put(Name::Map(*place), bytes.clone()), Purpose::Map, network);
                    self.map = Some((request, bytes));
                    return;
                }
                MapRequest::List => {
                    self.send(mount, Op::Maps, Purpose::ListMaps, network);
                    self.map = Some((request, bytes));
                    return;
                }
                MapRequest::Delete(maps) if maps.is_empty() => {}
                MapRequest::Delete(maps) => {
                    self.deletions = maps.len();
                    for &map in maps {
                        self.send(mount, Op::Delete(Name::Map(map)), Purpose::DeleteMap, network);
                    }
                    self.map = Some((request, bytes));
                    return;
                }
                MapRequest::Done => return,
            }
            self.map = Some((self.maps.step(&[], self.now(network)), bytes));
        }
    }

    /// The request of the map that is being written is done.
    fn map_step(&mut self, mount: usize, listed: &[LogPlace], network: &mut Network) {
        if let Some((_, bytes)) = self.map.take() {
            self.map = Some((self.maps.step(listed, self.now(network)), bytes));
            self.go_on_with_map(mount, network);
        }
    }

    pub(super) fn delete_due(&mut self, mount: usize, network: &mut Network) {
        for id in self.maps.take_due(self.now(network)) {
            self.send(mount, Op::Delete(Name::Object(id)), Purpose::Delete, network);
        }
    }

    /// Ends the epoch, if nothing is under way.
    pub(super) fn close(&mut self, mount: usize, network: &mut Network) {
        let is_settled = self.commits.acknowledged() == self.state.seq.previous();
        if is_settled && self.state.is_unchanged() && self.map.is_none() {
            let place = self.session.place(self.state.seq);
            let op = Op::Create(Name::log(place), commit::seal(&self.session, place));
            self.send(mount, op, Purpose::Seal, network);
        }
    }

    fn answer(
        &mut self,
        mount: usize,
        token: u64,
        reply: Reply,
        network: &mut Network,
        history: &mut History,
    ) -> Result<Event, String> {
        let Some(purpose) = self.purposes.remove(&token) else { return Ok(Event::Nothing) };
        match (purpose, reply) {
            (Purpose::Data(upload), _) => {
                self.state.content.remove(&upload.index);
                let complete = self.commits.data_stored(upload.id);
                self.create(mount, complete, network);
            }
            (Purpose::Commit(_), Reply::Created(Created::Other(_))) => {
                self.commits.fail(&StoreError::Unsettled(0));
                return Ok(Event::Stopped("fenced".into()));
            }
            (Purpose::Commit(group), _) => {
                for (index, _) in &group.inline {
                    self.state.content.remove(index);
                }
                let before = self.commits.acknowledged();
                let upto = self.commits.stored(group.seq);
                if matches!(self.map, Some((MapRequest::Commits(_), _))) {
                    self.go_on_with_map(mount, network);
                }
                if upto > before {
                    let place = self.session.place(upto);
                    history.acknowledge(place)?;
                    return Ok(Event::Acknowledged(place));
                }
            }
            (Purpose::Map, _) => self.map_step(mount, &[], network),
            (Purpose::ListMaps, Reply::Names(maps)) => {
                let maps: Vec<LogPlace> = maps.into_iter().filter_map(Name::place).collect();
                self.map_step(mount, &maps, network);
            }
            (Purpose::DeleteMap, _) => {
                self.deletions -= 1;
                if self.deletions == 0 {
                    self.map_step(mount, &[], network);
                }
            }
            (Purpose::Delete, _) => {}
            (Purpose::Seal, _) => return Ok(Event::Stopped("closed".into())),
            (Purpose::SweepMaps, Reply::Names(maps)) => {
                let maps = maps.into_iter().filter_map(Name::place).collect();
                if let Some((older, oldest)) = self.found.earlier_maps(maps) {
                    self.older = older;
                    self.deletions_of_sweep(mount, oldest, network);
                }
            }
            (Purpose::SweepOldMap, _) => self.list_objects(mount, network),
            (Purpose::SweepObjects, Reply::Names(names)) => self.sweep(names, network),
            (Purpose::ListMaps | Purpose::SweepMaps | Purpose::SweepObjects, reply) => {
                panic!("another answer: {reply:?}")
            }
        }
        Ok(Event::Nothing)
    }

    fn deletions_of_sweep(&mut self, mount: usize, maps: Vec<LogPlace>, network: &mut Network) {
        for map in maps {
            self.send(mount, Op::Delete(Name::Map(map)), Purpose::SweepOldMap, network);
        }
        self.list_objects(mount, network);
    }

    /// Lists objects once all earlier maps are deleted.
    fn list_objects(&mut self, mount: usize, network: &mut Network) {
        if !self.purposes.values().any(|purpose| matches!(purpose, Purpose::SweepOldMap)) {
            self.send(mount, Op::Objects, Purpose::SweepObjects, network);
        }
    }

    fn sweep(&mut self, names: Vec<Name>, network: &Network) {
        let mut garbage = Vec::new();
        for id in names.into_iter().filter_map(|name| match name {
            Name::Object(id) => Some(id),
            _ => None,
        }) {
            match self.found.fate(id, self.older, self.session.epoch) {
                Fate::Kept => {}
                Fate::Tracked => _ = self.state.stored.insert(id),
                Fate::Garbage => garbage.push(id),
            }
        }
        self.maps.add(self.older, garbage, self.found.settled, self.now(network));
    }
}
