//! Objects that no map will name again, until they can be deleted.
use crate::wire::names::ObjectId;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Objects that the newest map does not name wait for the next map, so that the map before it stays usable.
/// After that readers have a grace period.
#[derive(Debug)]
pub(crate) struct Garbage {
    grace: Duration,
    /// Objects that the newest map does not name.
    newest: Vec<ObjectId>,
    due: VecDeque<(Instant, Vec<ObjectId>)>,
}

impl Garbage {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { grace, newest: Vec::new(), due: VecDeque::new() }
    }

    /// Records that a map is durable that does not name these objects.
    pub(crate) fn map_stored(&mut self, unnamed: Vec<ObjectId>, now: Instant) {
        let older = std::mem::replace(&mut self.newest, unnamed);
        self.add(older, false, now);
    }

    /// Adds objects that the newest map does not name either.
    pub(crate) fn also_unnamed(&mut self, unnamed: Vec<ObjectId>) {
        self.newest.extend(unnamed);
    }

    /// Adds objects that are in no map usable for recovery. `settled` if readers that could use them have had
    /// their grace period.
    pub(crate) fn add(&mut self, objects: Vec<ObjectId>, settled: bool, now: Instant) {
        if objects.is_empty() {
            return;
        }
        if settled {
            self.due.push_front((now, objects));
        } else {
            self.due.push_back((now + self.grace, objects));
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.front().map(|(due, _)| *due)
    }

    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<ObjectId> {
        let mut taken = Vec::new();
        while self.next_due().is_some_and(|due| due <= now)
            && let Some((_, objects)) = self.due.pop_front()
        {
            taken.extend(objects);
        }
        taken
    }
}
