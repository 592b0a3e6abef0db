//! A store, and the requests on their way to it and back.
use crate::ids::{Epoch, LogPlace};
use crate::wire::names::{Name, ObjectId};
use crate::wire::remote::Created;
use bytes::Bytes;
use segno_testkit::Rng;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Get(Name),
    Maps,
    /// Epochs after this one.
    Epochs(Option<Epoch>),
    /// Objects of the log after this place.
    Log(LogPlace),
    Objects,
    Create(Name, Bytes),
    Put(Name, Bytes),
    Delete(Name),
}

#[derive(Clone, Debug)]
pub(super) enum Reply {
    Got(Option<Bytes>),
    Names(Vec<Name>),
    Created(Created),
    Done,
}

/// A request under way.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    /// The mount that waits for the answer, with its number for the request; `None` if no mount waits any more.
    pub to: Option<(usize, u64)>,
    op: Op,
    /// The answer, once the request has had its effect.
    pub reply: Option<Reply>,
}

impl Flight {
    /// Whether it has an effect, and has not had it.
    fn may_still_arrive(&self) -> bool {
        self.reply.is_none() && matches!(self.op, Op::Create(..) | Op::Put(..) | Op::Delete(_))
    }
}

struct Object {
    bytes: Bytes,
    /// The step in which it was first stored.
    at: u64,
}

#[derive(Default)]
pub(super) struct Network {
    objects: BTreeMap<Name, Object>,
    pub flights: Vec<Flight>,
    tokens: u64,
    pub step: u64,
}

impl Network {
    pub(super) fn send(&mut self, mount: usize, op: Op) -> u64 {
        self.tokens += 1;
        self.flights.push(Flight { to: Some((mount, self.tokens)), op, reply: None });
        self.tokens
    }

    pub(super) fn get(&self, name: Name) -> Option<&Bytes> {
        self.objects.get(&name).map(|object| &object.bytes)
    }

    pub(super) fn put(&mut self, name: Name, bytes: Bytes) {
        let at = self.objects.get(&name).map_or(self.step, |object| object.at);
        self.objects.insert(name, Object { bytes, at });
    }

    pub(super) fn names(&self) -> impl Iterator<Item = Name> {
        self.objects.keys().copied()
    }

    /// A request has its effect. Returns whether a state could be worse for it: something was deleted or a map
    /// was stored.
    pub(super) fn arrive(&mut self, flight: usize, rng: &mut Rng) -> bool {
        let op = self.flights[flight].op.clone();
        // A listing may be older than its answer: it lacks the newest names.
        let until = if rng.one_in(4) { self.step.saturating_sub(rng.below(40)).max(1) } else { self.step };
        let listed = |of: &dyn Fn(Name) -> bool| {
            let all = self.objects.iter().filter(|(name, _)| of(**name));
            let names = all.filter(|(_, object)| object.at <= until);
            Reply::Names(names.map(|(name, _)| *name).collect())
        };
        let reply = match &op {
            Op::Get(name) => Reply::Got(self.get(*name).cloned()),
            Op::Maps => listed(&|name| matches!(name, Name::Map(_))),
            Op::Epochs(after) => {
                listed(&|name| matches!(name, Name::Epoch(epoch) if after.is_none_or(|after| epoch > after)))
            }
            Op::Log(after) => {
                listed(&|name| matches!(name, Name::Object(ObjectId::Log(place)) if place > *after))
            }
            Op::Objects => listed(&|name| matches!(name, Name::Object(_))),
            Op::Create(name, bytes) => match self.get(*name) {
                // As `Remote::create`: the content decides.
                Some(found) if found == bytes => Reply::Created(Created::Ours),
                Some(found) => Reply::Created(Created::Other(found.clone())),
                None => {
                    self.put(*name, bytes.clone());
                    Reply::Created(Created::Ours)
                }
            },
            Op::Put(name, bytes) => {
                self.put(*name, bytes.clone());
                Reply::Done
            }
            Op::Delete(name) => {
                self.objects.remove(name);
                Reply::Done
            }
        };
        self.flights[flight].reply = Some(reply);
        matches!(op, Op::Delete(_) | Op::Put(Name::Map(_), _))
    }

    /// The answer is lost, or late: the client repeats the request. The first attempt may arrive once more.
    pub(super) fn repeat(&mut self, flight: usize, rng: &mut Rng) {
        let first = self.flights[flight].clone();
        self.flights[flight].reply = None;
        let copy = Flight { to: None, reply: None, ..first };
        if copy.may_still_arrive() && rng.one_in(2) {
            self.flights.push(copy);
        }
    }

    /// A mount has ended. Its requests may still arrive.
    pub(super) fn abandon(&mut self, mount: usize) {
        for flight in self.flights.iter_mut().filter(|f| f.to.is_some_and(|(to, _)| to == mount)) {
            flight.to = None;
        }
        self.flights.retain(|flight| flight.to.is_some() || flight.may_still_arrive());
    }

    pub(super) fn describe(&self, flight: usize) -> String {
        let Flight { to, op, .. } = &self.flights[flight];
        let what = match op {
            Op::Get(name) => format!("get {name}"),
            Op::Create(name, _) => format!("create {name}"),
            Op::Put(name, _) => format!("put {name}"),
            Op::Delete(name) => format!("delete {name}"),
            list => format!("list {list:?}"),
        };
        format!("{what} of {}", to.map_or("no mount".to_owned(), |(mount, _)| format!("mount {mount}")))
    }
}
