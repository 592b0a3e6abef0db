//! The allowed outcomes of a power cut, derived from docs/durability.md alone.
//!
//! A recovered volume is the state of one commit plus the files that were synced after it. An outcome is allowed if it keeps
//! every guarantee given before the cut. Which commit is recovered is not guaranteed, except that it is not older than the last
//! call that committed everything.
use super::history::{History, Moment, Promise, is_regular};
use crate::fs::Node;
use crate::model::{Content, Inode, Model, ROOT};
use std::collections::{BTreeMap, BTreeSet};

type Names = BTreeMap<Vec<u8>, Node>;

/// The column of docs/durability.md that applies to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contract {
    /// `fsync_mode=strict`.
    Strict,
    /// `fsync_mode=posix`.
    Posix,
    /// With the metadata journal, in any mode.
    Journal,
}

/// One allowed outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The state that was committed.
    pub committed: usize,
    /// Names of the directories, including unreachable ones.
    dirs: BTreeMap<Node, Names>,
    /// For the inodes that were synced after the commit: the state they are in.
    synced: BTreeMap<Node, usize>,
    /// The inodes whose sync failed or did not return, but is assumed to be durable.
    pub under_way: BTreeSet<Node>,
    /// Directories that recovery adds a name to, and inodes that it takes a name from: their times are those
    /// of the recovery.
    renamed: BTreeSet<Node>,
}

impl Expected {
    /// All allowed outcomes of a cut, newest first.
    #[must_use]
    pub fn all(history: &History, moment: Moment, contract: Contract) -> Vec<Self> {
        let commits = |p: Promise| match contract {
            Contract::Journal => matches!(p, Promise::All | Promise::Node(_)),
            Contract::Strict | Contract::Posix => p == Promise::All,
        };
        let promises = history.promises_to(moment.returned);
        let floor = promises.filter(|p| commits(p.promise)).map(|p| p.state).max().unwrap_or(0);
        let mut all = Vec::new();
        for committed in (floor..=moment.begun).rev() {
            let Some(one) = Self::after(history, committed, moment.returned, contract) else { continue };
            if contract != Contract::Journal {
                all.extend(one.with_attempts(history, moment, contract));
            }
            all.push(one);
        }
        all
    }

    /// A failed sync may be durable nevertheless, and of two concurrent syncs either or both.
    fn with_attempts(&self, history: &History, moment: Moment, contract: Contract) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for p in history.promises_to(moment.begun).filter(|p| p.state > self.committed) {
            let (node, unreturned) = match p.promise {
                Promise::Attempt(node) => (node, false),
                Promise::Node(node) if p.step > moment.returned => (node, true),
                _ => continue,
            };
            let others = if unreturned { all.clone() } else { Vec::new() };
            for mut with in others.into_iter().chain([self.clone()]) {
                if with.sync(history, node, p.state, contract) {
                    with.under_way.insert(node);
                    all.push(with);
                }
            }
        }
        all
    }

    /// A commit and the syncs that returned later; `None` if that breaks a promise, so that there must have been a newer
    /// commit.
    fn after(history: &History, committed: usize, returned: usize, contract: Contract) -> Option<Self> {
        let model = history.states.get(committed)?;
        let dirs = model.inodes().iter().filter_map(|(&n, i)| Some((n, i.names().ok()?.clone()))).collect();
        let (synced, under_way, renamed) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut one = Self { committed, dirs, synced, under_way, renamed };
        for p in history.promises_to(returned).filter(|p| p.state > committed) {
            if let Promise::Node(node) = p.promise
                && !one.sync(history, node, p.state, contract)
            {
                return None;
            }
        }
        Some(one)
    }

    /// Puts what the sync of an inode in some step made durable on top; false if no promise is kept that way.
    fn sync(&mut self, history: &History, node: Node, step: usize, contract: Contract) -> bool {
        let (Some(old), Some(new)) = (history.states.get(self.committed), history.states.get(step)) else {
            return false;
        };
        let Some(inode) = new.inodes().get(&node) else { return true };
        let names = new.names_of(node);
        let known = old.inodes().contains_key(&node) || self.synced.contains_key(&node);
        if !is_regular(inode) {
            // Only a commit makes a directory durable; none is needed without changes.
            return names.is_empty() || (known && has_same(old, new, node));
        }
        if known {
            self.synced.insert(node, step);
            // The link count is that of the call, so no name is missing and no removed name reappears.
            return self.names_of(node) == names;
        }
        let mut names = names.into_iter();
        match (names.next(), names.next()) {
            (None, _) => true,
            (Some((dir, name)), None) => self.add(new, dir, name, node, step, contract),
            _ => false,
        }
    }

    /// Adds a new file under the path that it was synced with.
    fn add(
        &mut self,
        new: &Model,
        dir: Node,
        name: Vec<u8>,
        node: Node,
        step: usize,
        contract: Contract,
    ) -> bool {
        if !self.has_path(new, dir) {
            return false;
        }
        let now = new.inodes().get(&dir).and_then(|i| i.names().ok());
        let Some(names) = self.dirs.get_mut(&dir) else { return false };
        let before = names.insert(name, node);
        // In strict mode names that went before do not come back.
        let no_old_names = names.iter().all(|(name, n)| now.and_then(|now| now.get(name)) == Some(n));
        self.synced.insert(node, step);
        self.renamed.insert(dir);
        let nothing_lost = before.is_none_or(|before| self.may_lose_name(new, before));
        nothing_lost && (contract != Contract::Strict || no_old_names)
    }

    /// Whether the path of a directory is the one it had in a state.
    fn has_path(&self, new: &Model, dir: Node) -> bool {
        let mut at = dir;
        while at != ROOT {
            let Some((parent, name)) = new.names_of(at).pop_first() else { return false };
            if self.lookup(parent, &name) != Some(at) {
                return false;
            }
            at = parent;
        }
        true
    }

    /// A name of the inode went to another inode. If the inode has a name in the state of the sync, it must
    /// not be left without one, and a directory must not be lost with its entries. A rename is never half
    /// done.
    fn may_lose_name(&mut self, new: &Model, node: Node) -> bool {
        self.renamed.insert(node);
        let is_full = self.dirs.get(&node).is_some_and(|names| !names.is_empty());
        let lives_on = !new.names_of(node).is_empty();
        !is_full && (!lives_on || !self.names_of(node).is_empty())
    }

    fn lookup(&self, dir: Node, name: &[u8]) -> Option<Node> {
        self.dirs.get(&dir)?.get(name).copied()
    }

    /// The names of an inode in directories that can be reached.
    fn names_of(&self, node: Node) -> BTreeSet<(Node, Vec<u8>)> {
        let reachable = self.reachable();
        let dirs = self.dirs.iter().filter(|(d, _)| reachable.contains(d));
        dirs.flat_map(|(&dir, names)| {
            names.iter().filter(|&(_, &n)| n == node).map(move |(name, _)| (dir, name.clone()))
        })
        .collect()
    }

    /// All inodes reachable through a path.
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
        self.synced.get(&node).copied().unwrap_or(self.committed)
    }

    /// Whether recovery changes the names of a directory, or takes a name from an inode.
    #[must_use]
    pub fn is_renamed(&self, node: Node) -> bool {
        self.renamed.contains(&node)
    }

    /// How many names lead to an inode; for a directory as stat(2) counts them.
    #[must_use]
    pub fn links(&self, node: Node, is_dir: impl Fn(Node) -> bool) -> u32 {
        match self.dirs.get(&node) {
            Some(names) => 2 + names.values().filter(|&&n| is_dir(n)).count() as u32,
            None => self.names_of(node).len() as u32,
        }
    }
}

/// Whether a directory or special file is the same in two states.
fn has_same(old: &Model, new: &Model, node: Node) -> bool {
    let (Some(a), Some(b)) = (old.inodes().get(&node), new.inodes().get(&node)) else { return false };
    let same = same_fields(a, b) && a.times == b.times && a.xattrs == b.xattrs;
    same && old.names_of(node) == new.names_of(node) && a.names().ok() == b.names().ok()
}

/// Whether two inodes agree in everything but times, links, attributes and data.
#[must_use]
pub fn same_fields(a: &Inode, b: &Inode) -> bool {
    same_but_size(a, b) && a.attr().size == b.attr().size
}

/// Whether files of which not all may be written agree in that.
#[must_use]
pub fn same_but_size(a: &Inode, b: &Inode) -> bool {
    let target = |i: &Inode| match &i.content {
        Content::Link(target) => Some(target.clone()),
        _ => None,
    };
    let fields = |i: &Inode| (i.kind, i.mode, i.uid, i.gid, i.rdev);
    let more = |i: &Inode| (i.created, i.flags, i.projid, i.compression, i.advise);
    fields(a) == fields(b) && more(a) == more(b) && target(a) == target(b)
}
