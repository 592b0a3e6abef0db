//! The order of uploads. Data objects are uploaded at once, several at a time. A commit follows all data
//! objects that were queued before it. Commits keep their order, and those that had to wait are merged into
//! one object. So the store has a prefix of the commits, each with its data.
use crate::ids::{Epoch, LogPlace, Seq};
use crate::log::commit::WINDOW;
use crate::stats::Cause;
use crate::wire::names::ObjectId;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::RangeInclusive;

/// Data objects stored at a time.
pub(crate) const UPLOADS: usize = 8;
/// Minimum number of ready commits to merge: two requests instead of one for each.
pub(crate) const MERGE_MIN: u64 = 4;
/// Maximum bytes of merged commits; their blocks fit into an object.
pub(crate) const MERGE_BYTES: u64 = 8 << 20;
/// Number of merges that are remembered.
const REPLACED: usize = 256;

/// An upload to begin.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    One(ObjectId, Item),
    /// Commits, as one object.
    Merge(RangeInclusive<Seq>),
}

/// An object that the store does not have yet.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub bytes: u64,
    /// Its content, if the directory could not take it.
    pub memory: Option<Bytes>,
    pub cause: Cause,
}

/// Where the content of an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Memory(Bytes),
    Disk,
    Store,
    /// Its blocks are in another one.
    Merged,
}

/// Objects that wait for the store or are being uploaded.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    epoch: Epoch,
    /// Each with its number in the order of staging.
    items: HashMap<ObjectId, (u64, Item)>,
    queued: u64,
    bytes: u64,
    /// Data objects by that number, and those whose upload has not begun.
    data: BTreeMap<u64, ObjectId>,
    waiting: VecDeque<ObjectId>,
    /// The next commit to upload.
    next: Seq,
    /// All commits up to this one are in the store.
    upto: Seq,
    /// Uploads of later commits: the last commit of each, and whether it is done.
    begun: VecDeque<(Seq, bool)>,
    /// Commits up to this one are not merged.
    fixed: Seq,
    /// Inline blocks of merged commits that are under way.
    merged: HashMap<ObjectId, Bytes>,
    /// The last commits that were merged, for reads that began before the merge.
    replaced: VecDeque<RangeInclusive<Seq>>,
}

impl Queue {
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self { epoch, next: Seq::FIRST, ..Self::default() }
    }

    pub(crate) fn push(&mut self, id: ObjectId, item: Item) {
        self.queued += 1;
        self.bytes += item.bytes;
        if let ObjectId::Data { .. } = id {
            self.data.insert(self.queued, id);
            self.waiting.push_back(id);
        }
        self.items.insert(id, (self.queued, item));
    }

    pub(crate) fn get(&self, id: ObjectId) -> Option<&Item> {
        self.items.get(&id).map(|(_, item)| item)
    }

    fn log(&self, seq: Seq) -> ObjectId {
        ObjectId::Log(LogPlace::new(self.epoch, seq))
    }

    /// The next upload to begin, if one may.
    pub(crate) fn begin(&mut self) -> Option<Work> {
        if let Some(work) = self.begin_commits() {
            return Some(work);
        }
        let id = self.begin_data()?;
        self.get(id).map(|item| Work::One(id, item.clone()))
    }

    fn begin_commits(&mut self) -> Option<Work> {
        if self.begun.len() as u64 >= WINDOW {
            return None;
        }
        let first = self.next;
        let item = self.may_go(first)?.clone();
        let (last, work) = match self.together(first) {
            Some(last) if last.since(first) + 1 >= MERGE_MIN => (last, Work::Merge(first..=last)),
            _ => (first, Work::One(self.log(first), item)),
        };
        self.next = last.next().ok()?;
        self.begun.push_back((last, false));
        Some(work)
    }

    /// A commit, if its data is in the store.
    fn may_go(&self, seq: Seq) -> Option<&Item> {
        let (queued, item) = self.items.get(&self.log(seq))?;
        let has_data = self.data.first_key_value().is_none_or(|(first, _)| first > queued);
        has_data.then_some(item)
    }

    /// The last commit that may be merged with this one and those between.
    fn together(&self, first: Seq) -> Option<Seq> {
        let mut bytes = 0;
        let mut fits = |item: &Item| {
            bytes += item.bytes;
            item.memory.is_none() && bytes <= MERGE_BYTES
        };
        if first <= self.fixed {
            return None;
        }
        let ready = first.onwards().map_while(|seq| Some((seq, self.may_go(seq)?)));
        ready.take_while(|(_, item)| fits(item)).last().map(|(seq, _)| seq)
    }

    fn begin_data(&mut self) -> Option<ObjectId> {
        let under_way = self.data.len() - self.waiting.len();
        if under_way >= UPLOADS { None } else { self.waiting.pop_front() }
    }

    /// Records that the store has an object.
    pub(crate) fn finish(&mut self, id: ObjectId) {
        match id {
            ObjectId::Data { .. } => {
                if let Some((queued, item)) = self.items.remove(&id) {
                    self.bytes -= item.bytes;
                    self.data.remove(&queued);
                }
            }
            ObjectId::Log(LogPlace { seq, .. }) => _ = self.finish_commits(seq..=seq),
        }
    }

    /// Records that the store has commits that were uploaded together. Returns their items.
    pub(crate) fn finish_commits(&mut self, seqs: RangeInclusive<Seq>) -> Vec<(ObjectId, Item)> {
        if let Some(begun) = self.begun.iter_mut().find(|(last, _)| last == seqs.end()) {
            begun.1 = true;
        }
        while let Some(&(last, true)) = self.begun.front() {
            self.begun.pop_front();
            self.upto = last;
        }
        let ids: Vec<ObjectId> = seqs.start().up_to(*seqs.end()).map(|seq| self.log(seq)).collect();
        let taken =
            ids.into_iter().filter_map(|id| Some((id, self.items.remove(&id)?.1))).collect::<Vec<_>>();
        self.bytes -= taken.iter().map(|(_, item)| item.bytes).sum::<u64>();
        taken
    }

    /// Prevents merging commits up to this one, as a map is written that names their objects as they are.
    pub(crate) fn fix(&mut self, upto: Seq) {
        self.fixed = self.fixed.max(upto);
    }

    /// Whether commits may still be merged. If so, their inline blocks are in another object from now on.
    pub(crate) fn merge(&mut self, seqs: RangeInclusive<Seq>, data: Option<(ObjectId, Bytes)>) -> bool {
        let may = *seqs.start() > self.fixed;
        if may {
            self.merged.extend(data);
            self.replaced.truncate(REPLACED - 1);
            self.replaced.push_front(seqs);
        }
        may
    }

    /// Where an object is.
    pub(crate) fn find(&self, id: ObjectId) -> Location {
        let in_memory = |bytes: &Bytes| Location::Memory(bytes.clone());
        match (self.get(id), id) {
            (Some(item), _) => item.memory.as_ref().map_or(Location::Disk, in_memory),
            (None, ObjectId::Log(LogPlace { epoch, seq }))
                if epoch == self.epoch && self.replaced.iter().any(|seqs| seqs.contains(&seq)) =>
            {
                Location::Merged
            }
            _ => self.merged.get(&id).map_or(Location::Store, in_memory),
        }
    }

    pub(crate) fn finish_merged(&mut self, id: ObjectId) {
        self.merged.remove(&id);
    }

    /// The store has all commits up to this one.
    pub(crate) fn upto(&self) -> Seq {
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
        ObjectId::Data { epoch: Epoch::new(1), number }
    }

    fn log(seq: u64) -> ObjectId {
        ObjectId::Log(LogPlace::of(1, seq))
    }

    fn seq(number: u64) -> Seq {
        Seq::new(number)
    }

    fn push(queue: &mut Queue, id: ObjectId) {
        queue.push(id, Item { bytes: 10, memory: None, cause: Cause::Data });
    }

    /// Uploads that begin; of merged commits, the first and the last.
    fn begun(queue: &mut Queue) -> Vec<ObjectId> {
        let ids = |work| match work {
            Work::One(id, _) => vec![id],
            Work::Merge(seqs) => vec![log(seqs.start().get()), log(seqs.end().get())],
        };
        std::iter::from_fn(|| queue.begin()).flat_map(ids).collect()
    }

    #[test]
    fn a_commit_waits_for_data_spooled_before_it_and_for_no_other() {
        let mut queue = Queue::new(Epoch::new(1));
        push(&mut queue, data(1));
        push(&mut queue, log(1));
        push(&mut queue, data(2));
        assert_eq!(begun(&mut queue), [data(1), data(2)]);
        queue.finish(data(2));
        assert_eq!(begun(&mut queue), []);
        queue.finish(data(1));
        assert_eq!(begun(&mut queue), [log(1)]);
        assert_eq!((queue.upto(), queue.pending()), (seq(0), (1, 10)));
        queue.finish(log(1));
        assert_eq!((queue.upto(), queue.pending()), (seq(1), (0, 0)));
    }

    #[test]
    fn commits_go_in_order_and_a_window_of_them_at_a_time() {
        let mut queue = Queue::new(Epoch::new(1));
        push(&mut queue, log(2));
        assert_eq!(begun(&mut queue), [], "the first was not queued yet");
        push(&mut queue, log(1));
        assert_eq!(begun(&mut queue), [log(1), log(2)]);
        (3..8).for_each(|seq| push(&mut queue, log(seq)));
        assert_eq!(begun(&mut queue), [log(3), log(7)], "merged");
        push(&mut queue, log(8));
        assert_eq!(begun(&mut queue), [log(8)]);
        push(&mut queue, log(9));
        queue.finish(log(2));
        assert_eq!((queue.upto(), begun(&mut queue)), (Seq::NONE, vec![]), "a gap");
        queue.finish(log(1));
        assert_eq!((queue.upto(), begun(&mut queue)), (seq(2), vec![log(9)]));
        queue.finish(log(8));
        assert_eq!(
            (queue.upto(), queue.finish_commits(seq(3)..=seq(7)).len(), queue.upto()),
            (seq(2), 5, seq(8))
        );
        assert_eq!(queue.pending(), (1, 10));
    }

    #[test]
    fn commits_are_merged_without_their_data_nowhere_and_not_across_a_map() {
        let mut queue = Queue::new(Epoch::new(1));
        (1..5).for_each(|seq| push(&mut queue, log(seq)));
        push(&mut queue, data(1));
        (5..9).for_each(|seq| push(&mut queue, log(seq)));
        assert_eq!(begun(&mut queue), [log(1), log(4), data(1)]);
        queue.fix(seq(5));
        assert!(!queue.merge(seq(1)..=seq(4), None) && !queue.merge(seq(5)..=seq(9), None));
        assert_eq!((queue.find(log(4)), queue.find(log(0))), (Location::Disk, Location::Store));
        assert!(queue.merge(seq(6)..=seq(12), Some((data(7), Bytes::from_static(b"7")))));
        assert_eq!(queue.find(log(12)), Location::Merged);
        assert_eq!(queue.find(data(7)), Location::Memory(Bytes::from_static(b"7")));
        queue.finish(data(1));
        assert_eq!(begun(&mut queue), [log(5), log(6), log(7)], "too few are behind the map");
        let mut queue = Queue::new(Epoch::new(1));
        (1..5).for_each(|seq| {
            queue.push(log(seq), Item { bytes: 3 << 20, memory: None, cause: Cause::Commit })
        });
        assert_eq!(begun(&mut queue).len(), 4, "an object of two is too small for that");
    }

    #[test]
    fn data_objects_go_several_at_a_time() {
        let mut queue = Queue::new(Epoch::new(1));
        (0..20).for_each(|n| push(&mut queue, data(n)));
        assert_eq!(begun(&mut queue).len(), UPLOADS);
        queue.finish(data(3));
        assert_eq!(begun(&mut queue), [data(8)]);
    }
}
