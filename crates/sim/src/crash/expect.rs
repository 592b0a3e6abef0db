//! What may be found after a power cut.
//!
//! A volume comes back as one checkpoint left it, with the files that were synced later put on top: each operation is in
//! the checkpoint or not, never half, so the names are those of some one moment. Which moment is not promised, only
//! that it is none before the last sync.
use super::history::{History, Moment, Promise, is_regular};
use crate::fs::Node;
use crate::model::{Content, Inode, Model, ROOT};
use std::collections::{BTreeMap, BTreeSet};

type Names = BTreeMap<Vec<u8>, Node>;

/// One possible outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The state that the checkpoint has.
    pub checkpoint: usize,
    /// Names of the directories, also of those that cannot be reached.
    dirs: BTreeMap<Node, Names>,
    /// For the inodes that were synced after the checkpoint: the state they are in.
    synced: BTreeMap<Node, usize>,
    /// The inodes whose sync did not return well, but is taken to have got there.
    pub under_way: BTreeSet<Node>,
}

impl Expected {
    /// All that may be found after a cut, the newest first.
    #[must_use]
    pub fn all(history: &History, moment: Moment, strict: bool) -> Vec<Self> {
        let promises = history.promises_to(moment.returned);
        let floor = promises.filter(|p| p.promise == Promise::All).map(|p| p.state).max().unwrap_or(0);
        let mut all = Vec::new();
        for checkpoint in (floor..=moment.begun).rev() {
            let Some(one) = Self::after(history, checkpoint, moment.returned, strict) else { continue };
            all.extend(one.with_attempts(history, moment, strict));
            all.push(one);
        }
        all
    }

    /// A sync that failed may have got there, and of two threads that are syncing either or both.
    fn with_attempts(&self, history: &History, moment: Moment, strict: bool) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for p in history.promises_to(moment.begun).filter(|p| p.state > self.checkpoint) {
            let (node, unreturned) = match p.promise {
                Promise::Attempt(node) => (node, false),
                Promise::Node(node) if p.step > moment.returned => (node, true),
                _ => continue,
            };
            let others = if unreturned { all.clone() } else { Vec::new() };
            for mut with in others.into_iter().chain([self.clone()]) {
                if with.sync(history, node, p.state, strict) {
                    with.under_way.insert(node);
                    all.push(with);
                }
            }
        }
        all
    }

    /// A checkpoint and the syncs that returned later; `None` if they cannot have been without a newer checkpoint.
    fn after(history: &History, checkpoint: usize, returned: usize, strict: bool) -> Option<Self> {
        let model = history.states.get(checkpoint)?;
        let dirs = model.inodes().iter().filter_map(|(&n, i)| Some((n, i.names().ok()?.clone()))).collect();
        let mut one = Self { checkpoint, dirs, synced: BTreeMap::new(), under_way: BTreeSet::new() };
        for p in history.promises_to(returned).filter(|p| p.state > checkpoint) {
            if let Promise::Node(node) = p.promise
                && !one.sync(history, node, p.state, strict)
            {
                return None;
            }
        }
        Some(one)
    }

    /// Adds what the sync of an inode in some step made durable; false if it took a checkpoint to do that.
    fn sync(&mut self, history: &History, node: Node, step: usize, strict: bool) -> bool {
        let (Some(old), Some(new)) = (history.states.get(self.checkpoint), history.states.get(step)) else {
            return false;
        };
        let Some(inode) = new.inodes().get(&node) else { return true };
        let names = new.names_of(node);
        let known = old.inodes().contains_key(&node) || self.synced.contains_key(&node);
        if !is_regular(inode) {
            // Logs are for files. Nothing need be done only if nothing has changed.
            return names.is_empty() || (known && self.has_same(old, new, node));
        }
        if known {
            // Names that went may come back, but none may be missing.
            let missing = |(dir, name): &(Node, Vec<u8>)| self.lookup(*dir, name) != Some(node);
            if names.iter().any(missing) {
                return false;
            }
            self.synced.insert(node, step);
            return true;
        }
        let mut names = names.into_iter();
        match (names.next(), names.next()) {
            (None, _) => true,
            (Some((dir, name)), None) => self.add(new, dir, name, node, step, strict),
            _ => false,
        }
    }

    /// Adds a new file in a directory.
    fn add(&mut self, new: &Model, dir: Node, name: Vec<u8>, node: Node, step: usize, strict: bool) -> bool {
        if !self.reachable().contains(&dir) {
            return false;
        }
        let now = new.inodes().get(&dir).and_then(|i| i.names().ok());
        let Some(names) = self.dirs.get_mut(&dir) else { return false };
        names.insert(name, node);
        self.synced.insert(node, step);
        // In strict mode names that went before do not come back.
        !strict || names.iter().all(|(name, n)| now.and_then(|now| now.get(name)) == Some(n))
    }

    fn has_same(&self, old: &Model, new: &Model, node: Node) -> bool {
        let (Some(a), Some(b)) = (old.inodes().get(&node), new.inodes().get(&node)) else { return false };
        let same = same_fields(a, b) && a.xattrs == b.xattrs && old.names_of(node) == new.names_of(node);
        same && a.names().ok() == b.names().ok()
    }

    fn lookup(&self, dir: Node, name: &[u8]) -> Option<Node> {
        self.dirs.get(&dir)?.get(name).copied()
    }

    /// Everything that a path leads to.
    #[must_use]
    pub fn reachable(&self) -> BTreeSet<Node> {
        let mut found = BTreeSet::new();
        let mut todo = vec![ROOT];
        while let Some(node) = todo.pop() {
            if found.insert(node) {
                todo.extend(self.dirs.get(&node).into_iter().flat_map(BTreeMap::values));
            }
        }
        found
    }

    /// Names of a directory.
    #[must_use]
    pub fn names(&self, dir: Node) -> Option<&Names> {
        self.dirs.get(&dir)
    }

    /// The state that the fields of an inode are from.
    #[must_use]
    pub fn state_of(&self, node: Node) -> usize {
        self.synced.get(&node).copied().unwrap_or(self.checkpoint)
    }

    /// How many names lead to an inode; for a directory as stat(2) counts them.
    #[must_use]
    pub fn links(&self, node: Node, is_dir: impl Fn(Node) -> bool) -> u32 {
        let count =
            |names: &Names, f: &dyn Fn(Node) -> bool| names.values().filter(|&&n| f(n)).count() as u32;
        match self.dirs.get(&node) {
            Some(names) => 2 + count(names, &is_dir),
            None => {
                let reachable = self.reachable();
                let dirs = self.dirs.iter().filter(|(d, _)| reachable.contains(d));
                dirs.map(|(_, names)| count(names, &|n| n == node)).sum()
            }
        }
    }
}

/// Whether two inodes agree in everything but times, links, attributes and data.
#[must_use]
pub fn same_fields(a: &Inode, b: &Inode) -> bool {
    same_but_size(a, b) && a.attr().size == b.attr().size
}

/// The same for files of which not all may be written.
#[must_use]
pub fn same_but_size(a: &Inode, b: &Inode) -> bool {
    let target = |i: &Inode| match &i.content {
        Content::Link(target) => Some(target.clone()),
        _ => None,
    };
    let fields = |i: &Inode| (i.kind, i.mode, i.uid, i.gid, i.rdev);
    fields(a) == fields(b) && target(a) == target(b)
}
