//! The changes that one mount makes to the bucket and to its cache, and the states that a cut can leave.
use crate::wire::names::ObjectId;
use bytes::Bytes;
use segno_testkit::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Up to this number of changes in flight every subset is tried.
const EXHAUSTIVE: usize = 4;

/// The effect of a request, or of an operation on a file of the cache.
#[derive(Clone)]
pub(super) enum Change {
    Put { name: String, bytes: Bytes, create: bool },
    Delete(String),
    Writeback(ObjectId, Bytes),
    Unstage(ObjectId),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { name, .. } => write!(f, "PUT {name}"),
            Self::Delete(name) => write!(f, "DELETE {name}"),
            Self::Writeback(id, _) => write!(f, "file {id:?}"),
            Self::Unstage(id) => write!(f, "removal of file {id:?}"),
        }
    }
}

/// The bucket, and the directory of a cache with write-back.
#[derive(Clone, Default)]
pub(super) struct Media {
    pub objects: BTreeMap<String, Bytes>,
    pub files: BTreeMap<ObjectId, Bytes>,
}

impl Media {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Put { name, create: true, .. } if self.objects.contains_key(name) => {}
            Change::Put { name, bytes, .. } => _ = self.objects.insert(name.clone(), bytes.clone()),
            Change::Delete(name) => _ = self.objects.remove(name),
            Change::Writeback(id, bytes) => _ = self.files.insert(*id, bytes.clone()),
            Change::Unstage(id) => _ = self.files.remove(id),
        }
    }
}

#[derive(Clone, Copy)]
enum Event {
    Begun(usize),
    Answered(usize),
}

/// The changes of a mount, in the order in which they were begun and answered.
#[derive(Default)]
pub(super) struct Log {
    base: Media,
    changes: Vec<Change>,
    events: Vec<Event>,
    refused: BTreeSet<usize>,
    /// Events until the volume was mounted. Later ones are maps and deletions.
    mounted: usize,
    /// All requests to the store until then.
    pub requests: u64,
}

/// One cut: the number of events before it, and the changes in flight that arrived or did not.
#[derive(Clone)]
pub(super) struct Cut {
    after: usize,
    arrived: Vec<usize>,
    lost: Vec<usize>,
}

impl Log {
    pub(super) fn new(base: Media) -> Self {
        Self { base, ..Self::default() }
    }

    pub(super) fn begin(&mut self, change: Change) -> usize {
        self.changes.push(change);
        self.events.push(Event::Begun(self.changes.len() - 1));
        self.changes.len() - 1
    }

    /// A creation has no effect if the name exists.
    pub(super) fn end(&mut self, change: usize, refused: bool) {
        self.events.push(Event::Answered(change));
        if refused {
            self.refused.insert(change);
        }
    }

    pub(super) fn mounted(&mut self) {
        self.mounted = self.events.len();
    }

    /// Changes until the volume was mounted.
    pub(super) fn changes(&self) -> u64 {
        self.events[..self.mounted].iter().filter(|e| matches!(e, Event::Begun(_))).count() as u64
    }

    /// Moments until the volume was mounted: next to each change of the bucket, and a share of the others.
    pub(super) fn moments(&self) -> Vec<usize> {
        let is_of_bucket = |event: &Event| {
            let (Event::Begun(n) | Event::Answered(n)) = event;
            matches!(self.changes[*n], Change::Put { .. } | Change::Delete(_))
        };
        let step = (self.mounted / 50).max(1);
        let is_one =
            |&at: &usize| at.is_multiple_of(step) || self.events[at - 1..at].iter().any(is_of_bucket);
        (0..=self.mounted).filter(is_one).collect()
    }

    /// Up to `most` moments of the maps and deletions that follow.
    pub(super) fn later_moments(&self, most: usize) -> Vec<usize> {
        let step = (self.events.len() - self.mounted).div_ceil(most.max(1)).max(1);
        (self.mounted + 1..=self.events.len()).step_by(step).collect()
    }

    /// Cuts at these moments: of a few changes in flight any subset arrived, of more all did, none, or a
    /// drawn subset. Each leaves another state.
    pub(super) fn cuts(&self, moments: &[usize], draws: usize, rng: &mut Rng) -> Vec<Cut> {
        let mut seen = BTreeSet::new();
        let mut cuts = Vec::new();
        for &after in moments {
            let (settled, flying) = self.at(after);
            let has_few = flying.len() <= EXHAUSTIVE;
            for draw in 0..if has_few { 1 << flying.len() } else { draws + 2 } {
                let mut has_arrived = |bit: usize| match draw {
                    mask if has_few => mask >> bit & 1 == 0,
                    0 => true,
                    1 => false,
                    _ => rng.one_in(2),
                };
                let mut cut = Cut { after, arrived: Vec::new(), lost: Vec::new() };
                for (bit, &change) in flying.iter().enumerate() {
                    if has_arrived(bit) { &mut cut.arrived } else { &mut cut.lost }.push(change);
                }
                let applied: BTreeSet<usize> = settled.iter().chain(&cut.arrived).copied().collect();
                if seen.insert(applied) {
                    cuts.push(cut);
                }
            }
        }
        cuts
    }

    /// The changes that are certain after the first `after` events, and the ones in flight. A cut may undo
    /// the removal of a file.
    fn at(&self, after: usize) -> (Vec<usize>, Vec<usize>) {
        let events = &self.events[..after];
        let answered: BTreeSet<usize> =
            events.iter().filter_map(|e| if let Event::Answered(n) = e { Some(*n) } else { None }).collect();
        let begun = events.iter().filter_map(|e| if let Event::Begun(n) = e { Some(*n) } else { None });
        begun.partition(|n| answered.contains(n) && !matches!(self.changes[*n], Change::Unstage(_)))
    }

    /// The state after a cut.
    pub(super) fn media(&self, cut: &Cut) -> Media {
        let (settled, _) = self.at(cut.after);
        let effective = settled.iter().filter(|n| !self.refused.contains(n));
        let mut media = self.base.clone();
        effective.chain(&cut.arrived).for_each(|&n| media.apply(&self.changes[n]));
        media
    }

    /// Requests that may arrive after the cut: they were sent, and have had no effect. One that takes an
    /// epoch would refuse the next client, which is right, so it does not.
    pub(super) fn late(&self, cut: &Cut) -> Vec<Change> {
        let may = |change: &&Change| match change {
            Change::Put { name, .. } => !name.contains("/epoch/"),
            Change::Delete(_) => true,
            Change::Writeback(..) | Change::Unstage(_) => false,
        };
        cut.lost.iter().map(|&n| &self.changes[n]).filter(may).cloned().collect()
    }

    pub(super) fn describe(&self, cut: &Cut) -> String {
        let names = |which: &[usize]| {
            let all: Vec<String> = which.iter().map(|&n| self.changes[n].to_string()).collect();
            all.join(", ")
        };
        let (arrived, lost) = (names(&cut.arrived), names(&cut.lost));
        format!(
            "after event {} of {}; in flight: [{arrived}] arrived, [{lost}] did not",
            cut.after,
            self.events.len()
        )
    }
}
