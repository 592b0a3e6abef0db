//! The order of uploads. Data objects go at once, several at a time; a commit goes after all data objects that were staged
//! before it, and commits in their order. So the store has a prefix of the commits, each with its data.
use crate::core::UPLOADS;
use crate::names::ObjectId;
use crate::recover::WINDOW;
use crate::stats::Cause;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// An object that the store does not have yet.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub bytes: u64,
    /// Its content, if the directory could not take it.
    pub memory: Option<Bytes>,
    pub cause: Cause,
}

/// What waits for the store, and what is under way.
#[derive(Debug)]
pub(crate) struct Queue {
    epoch: u32,
    /// With the order in which they were staged.
    items: HashMap<ObjectId, (u64, Item)>,
    staged: u64,
    bytes: u64,
    /// Data objects by that order, and those of them that were not begun.
    data: BTreeMap<u64, ObjectId>,
    waiting: VecDeque<ObjectId>,
    /// The commit to be begun next.
    next: u64,
    /// All commits up to this one are in the store, and these beyond it.
    upto: u64,
    beyond: BTreeSet<u64>,
    /// A bug that tests plant: commits do not wait for data.
    hasty: bool,
}

impl Queue {
    pub(crate) fn new(epoch: u32, hasty: bool) -> Self {
        Self {
            epoch,
            items: HashMap::new(),
            staged: 0,
            bytes: 0,
            data: BTreeMap::new(),
            waiting: VecDeque::new(),
            next: 1,
            upto: 0,
            beyond: BTreeSet::new(),
            hasty,
        }
    }

    pub(crate) fn push(&mut self, id: ObjectId, item: Item) {
        self.staged += 1;
        self.bytes += item.bytes;
        if let ObjectId::Data { .. } = id {
            self.data.insert(self.staged, id);
            self.waiting.push_back(id);
        }
        self.items.insert(id, (self.staged, item));
    }

    pub(crate) fn get(&self, id: ObjectId) -> Option<&Item> {
        self.items.get(&id).map(|(_, item)| item)
    }

    /// The next upload to begin, if one may.
    pub(crate) fn begin(&mut self) -> Option<(ObjectId, Item)> {
        let id = self.begin_commit().or_else(|| self.begin_data())?;
        self.get(id).map(|item| (id, item.clone()))
    }

    fn begin_commit(&mut self) -> Option<ObjectId> {
        let id = ObjectId::Log { epoch: self.epoch, seq: self.next };
        let (staged, _) = self.items.get(&id)?;
        let has_data = self.data.first_key_value().is_none_or(|(first, _)| first > staged);
        if self.next > self.upto + WINDOW || !(has_data || self.hasty) {
            return None;
        }
        self.next += 1;
        Some(id)
    }

    fn begin_data(&mut self) -> Option<ObjectId> {
        let under_way = self.data.len() - self.waiting.len();
        if under_way >= UPLOADS { None } else { self.waiting.pop_front() }
    }

    /// The store has an object.
    pub(crate) fn finish(&mut self, id: ObjectId) {
        let Some((staged, item)) = self.items.remove(&id) else { return };
        self.bytes -= item.bytes;
        match id {
            ObjectId::Data { .. } => _ = self.data.remove(&staged),
            ObjectId::Log { seq, .. } => _ = self.beyond.insert(seq),
        }
        while self.beyond.remove(&(self.upto + 1)) {
            self.upto += 1;
        }
    }

    /// The store has all commits up to this one.
    pub(crate) fn upto(&self) -> u64 {
        self.upto
    }

    /// Objects that the store does not have, and their bytes.
    pub(crate) fn pending(&self) -> (u64, u64) {
        (self.items.len() as u64, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(number: u64) -> ObjectId {
        ObjectId::Data { epoch: 1, number }
    }

    fn log(seq: u64) -> ObjectId {
        ObjectId::Log { epoch: 1, seq }
    }

    fn push(queue: &mut Queue, id: ObjectId) {
        queue.push(id, Item { bytes: 10, memory: None, cause: Cause::Data });
    }

    fn begun(queue: &mut Queue) -> Vec<ObjectId> {
        std::iter::from_fn(|| queue.begin()).map(|(id, _)| id).collect()
    }

    #[test]
    fn a_commit_waits_for_data_staged_before_it_and_for_no_other() {
        let mut queue = Queue::new(1, false);
        push(&mut queue, data(1));
        push(&mut queue, log(1));
        push(&mut queue, data(2));
        assert_eq!(begun(&mut queue), [data(1), data(2)]);
        queue.finish(data(2));
        assert_eq!(begun(&mut queue), []);
        queue.finish(data(1));
        assert_eq!(begun(&mut queue), [log(1)]);
        assert_eq!((queue.upto(), queue.pending()), (0, (1, 10)));
        queue.finish(log(1));
        assert_eq!((queue.upto(), queue.pending()), (1, (0, 0)));
    }

    #[test]
    fn commits_go_in_order_and_a_window_of_them_at_a_time() {
        let mut queue = Queue::new(1, false);
        (2..8).for_each(|seq| push(&mut queue, log(seq)));
        assert_eq!(begun(&mut queue), [], "the first was not staged yet");
        push(&mut queue, log(1));
        assert_eq!(begun(&mut queue), [log(1), log(2), log(3), log(4)]);
        queue.finish(log(2));
        assert_eq!((queue.upto(), begun(&mut queue)), (0, vec![]), "a gap");
        queue.finish(log(1));
        assert_eq!((queue.upto(), begun(&mut queue)), (2, vec![log(5), log(6)]));
    }

    #[test]
    fn data_objects_go_several_at_a_time() {
        let mut queue = Queue::new(1, false);
        (0..20).for_each(|n| push(&mut queue, data(n)));
        assert_eq!(begun(&mut queue).len(), UPLOADS);
        queue.finish(data(3));
        assert_eq!(begun(&mut queue), [data(8)]);
    }
}
