//! Objects that no map will name again, until they may be deleted.
use crate::names::ObjectId;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// What the newest map does not name waits for the next map, so that the map before it could still be used; then readers
/// have some time.
#[derive(Debug)]
pub(crate) struct Garbage {
    grace: Duration,
    /// Not named by the newest map.
    newest: Vec<ObjectId>,
    due: VecDeque<(Instant, Vec<ObjectId>)>,
}

impl Garbage {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { grace, newest: Vec::new(), due: VecDeque::new() }
    }

    /// A map is durable that does not name these.
    pub(crate) fn map_stored(&mut self, unnamed: Vec<ObjectId>, now: Instant) {
        let older = std::mem::replace(&mut self.newest, unnamed);
        self.add(older, false, now);
    }

    /// The newest map does not name these either.
    pub(crate) fn also_unnamed(&mut self, unnamed: Vec<ObjectId>) {
        self.newest.extend(unnamed);
    }

    /// No map that recovery may use names these. Readers that could do have been served if the volume is `settled`.
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
