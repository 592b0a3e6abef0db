//! The order in which an epoch's commits are created and acknowledged, without I/O.
//!
//! A commit is created after all its data objects are stored. So a writer that seals the epoch after it can rely
//! on them, and this writer acknowledges no commit that a later writer leaves out. Up to [`WINDOW`] commits are
//! in flight. A commit is acknowledged when it and all lower ones are stored.
use crate::ids::Seq;
use crate::log::commit::WINDOW;
use crate::log::state::Group;
use crate::wire::names::ObjectId;
use crate::{Result, StoreError};
use std::collections::{BTreeMap, HashSet};

/// Commits that are not acknowledged yet.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// All commits up to this one are stored.
    acknowledged: Seq,
    /// Data objects of the open group that are not stored.
    open: HashSet<ObjectId>,
    /// Later commits, which are closed.
    closed: BTreeMap<Seq, Closed>,
    failed: Option<StoreError>,
}

#[derive(Debug)]
enum Closed {
    /// Until the last of these data objects is stored.
    Waits(Group, HashSet<ObjectId>),
    Created,
    Stored,
}

impl Commits {
    /// Records that a data object of the open group is being stored.
    pub(crate) fn data_begun(&mut self, id: ObjectId) {
        self.open.insert(id);
    }

    /// Records that a data object is stored. Returns the commit to create now.
    pub(crate) fn data_stored(&mut self, id: ObjectId) -> Option<Group> {
        self.open.remove(&id);
        let waits = self.closed.iter_mut().find_map(|(&seq, closed)| match closed {
            Closed::Waits(_, data) => data.remove(&id).then_some((seq, data.is_empty())),
            _ => None,
        });
        waits.filter(|(_, is_complete)| *is_complete).and_then(|(seq, _)| self.create(seq))
    }

    /// Whether another group may be closed.
    pub(crate) fn has_room(&self) -> bool {
        (self.closed.len() as u64) < WINDOW
    }

    /// Records that a group is closed. Returns the commit to create now.
    pub(crate) fn close(&mut self, group: Group) -> Option<Group> {
        let (seq, data) = (group.seq, std::mem::take(&mut self.open));
        let is_complete = data.is_empty();
        self.closed.insert(seq, Closed::Waits(group, data));
        if is_complete { self.create(seq) } else { None }
    }

    fn create(&mut self, seq: Seq) -> Option<Group> {
        match std::mem::replace(self.closed.get_mut(&seq)?, Closed::Created) {
            Closed::Waits(group, _) => Some(group),
            _ => None,
        }
    }

    /// Records that a commit is stored. Returns the commit up to which all are acknowledged.
    pub(crate) fn stored(&mut self, seq: Seq) -> Seq {
        self.closed.entry(seq).and_modify(|closed| *closed = Closed::Stored);
        while let Some((&next, Closed::Stored)) = self.closed.first_key_value() {
            self.closed.remove(&next);
            self.acknowledged = next;
        }
        self.acknowledged
    }

    /// All commits up to this one are stored.
    pub(crate) fn acknowledged(&self) -> Seq {
        self.acknowledged
    }

    /// Ends writing: no further commit is created.
    pub(crate) fn fail(&mut self, why: &StoreError) {
        self.failed.get_or_insert_with(|| why.clone());
    }

    /// The error that ended writing, if any.
    pub(crate) fn failed(&self) -> Option<&StoreError> {
        self.failed.as_ref()
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Epoch;

    fn group(seq: u64) -> Group {
        Group { seq: Seq::new(seq), ops: Vec::new(), inline: Vec::new(), uploads: Vec::new() }
    }

    fn data(number: u64) -> ObjectId {
        ObjectId::Data { epoch: Epoch::new(1), number }
    }

    #[test]
    fn a_commit_waits_for_its_data_and_its_acknowledgement_for_lower_ones() {
        let mut commits = Commits::default();
        commits.data_begun(data(1));
        commits.data_begun(data(2));
        assert!(commits.close(group(1)).is_none());
        commits.data_begun(data(3));
        assert!(commits.data_stored(data(3)).is_none() && commits.close(group(2)).is_some());
        assert_eq!(commits.stored(Seq::new(2)), Seq::NONE);
        assert!(commits.data_stored(data(2)).is_none());
        assert_eq!(commits.data_stored(data(1)).map(|group| group.seq), Some(Seq::FIRST));
        (3..5).for_each(|seq| assert!(commits.has_room() && commits.close(group(seq)).is_some()));
        assert!(!commits.has_room());
        assert_eq!(commits.stored(Seq::new(4)), Seq::NONE);
        assert_eq!((commits.stored(Seq::FIRST), commits.has_room()), (Seq::new(2), true));
        assert_eq!(commits.stored(Seq::new(3)), Seq::new(4));
    }
}
