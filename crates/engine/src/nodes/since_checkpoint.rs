//! Changes since the last checkpoint that decide how an fsync may be done, and inodes without a name.
use crate::lock::{Mutex, rank};
use crate::sync::atomic::{AtomicU64, Ordering};
use foldhash::{HashMap, HashSet};
use segno_format::Ino;
use std::collections::BTreeSet;

/// A change of an inode that roll-forward recovery cannot repeat, or that is already in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Change {
    /// The inode was renamed or linked, which roll-forward does not repeat.
    Renamed = 1,
    /// A directory lost a name, or its attributes changed.
    Directory = 2,
    /// The inode lost one of its names.
    Unlinked = 4,
    /// The inode lost a node that the checkpoint or the chain has: roll-forward does not free nodes.
    NodeFreed = 8,
    /// The inode's compression was turned on or off, or its parameters changed.
    Compression = 32,
    /// An fsync logged the inode together with its directory entry.
    EntryLogged = 16,
    /// A node of the inode was written to the chain without a mark, and no mark has followed.
    WrittenAhead = 64,
}

/// Changes since the last checkpoint. A checkpoint clears all but the orphans: changes at its boundary, `logged` at
/// its end.
#[derive(Debug, Default)]
pub struct SinceCheckpoint {
    /// Nodes in the chain after the checkpoint in force.
    logged: AtomicU64,
    inner: Mutex<Inner, { rank::LEAF }>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Bits of [`Change`].
    changes: HashMap<Ino, u8>,
    /// Directory and name hash of names removed from an inode that still exists, and of removed directories.
    /// Roll-forward undoes neither removal. A new file logged under one of these names would take the last name of
    /// another inode, or replace a directory that recovery finds non-empty.
    vacated: HashSet<(Ino, u32)>,
    /// A directory was renamed, so the checkpoint has other paths for the names below it.
    dir_renamed: bool,
    /// The chain ends early: the next address it names was not or will not be written, so recovery stops there.
    chain_broken: bool,
    orphans: BTreeSet<Ino>,
}

impl SinceCheckpoint {
    pub fn add(&self, ino: Ino, change: Change) {
        *self.inner.lock().changes.entry(ino).or_default() |= change as u8;
    }
    pub fn has(&self, ino: Ino, change: Change) -> bool {
        self.inner.lock().changes.get(&ino).is_some_and(|bits| bits & change as u8 != 0)
    }
    /// An fsync marked the inode, with all its nodes in the chain.
    pub fn marked(&self, ino: Ino) {
        if let Some(bits) = self.inner.lock().changes.get_mut(&ino) {
            *bits &= !(Change::WrittenAhead as u8);
        }
    }
    /// Notes a name that was moved, was one of several, or was a directory's: a new file with this name cannot be
    /// logged.
    pub fn name_vacated(&self, dir: Ino, hash: u32) {
        self.inner.lock().vacated.insert((dir, hash));
    }
    pub fn is_name_vacated(&self, dir: Ino, hash: u32) -> bool {
        self.inner.lock().vacated.contains(&(dir, hash))
    }
    /// Notes that a directory was renamed. New files cannot be logged, as any may be below it.
    pub fn dir_renamed(&self) {
        self.inner.lock().dir_renamed = true;
    }
    pub fn has_dir_renamed(&self) -> bool {
        self.inner.lock().dir_renamed
    }
    /// Counts nodes that were written to the chain.
    pub fn add_logged(&self, nodes: usize) {
        self.logged.fetch_add(nodes as u64, Ordering::Relaxed);
    }
    pub fn logged(&self) -> u64 {
        self.logged.load(Ordering::Relaxed)
    }
    /// Resets the count: the checkpoint they follow is no longer in force, and no fsync has logged nodes since.
    pub fn chain_ended(&self) {
        self.logged.store(0, Ordering::Relaxed);
    }
    /// No fsync can be logged before the next checkpoint.
    pub fn break_chain(&self) {
        self.inner.lock().chain_broken = true;
    }
    pub fn is_chain_broken(&self) -> bool {
        self.inner.lock().chain_broken
    }
    /// Adds an inode that lost its last name, or never had one.
    pub fn add_orphan(&self, ino: Ino) {
        self.inner.lock().orphans.insert(ino);
    }
    /// Adds an orphan; false if `max` orphans exist already.
    pub fn try_add_orphan(&self, ino: Ino, max: usize) -> bool {
        let mut inner = self.inner.lock();
        let room = inner.orphans.len() < max;
        if room {
            inner.orphans.insert(ino);
        }
        room
    }
    /// Removes an orphan that was freed or got a name.
    pub fn remove_orphan(&self, ino: Ino) {
        self.inner.lock().orphans.remove(&ino);
    }
    pub fn orphans(&self) -> Vec<Ino> {
        self.inner.lock().orphans.iter().copied().collect()
    }
    pub fn is_orphan(&self, ino: Ino) -> bool {
        self.inner.lock().orphans.contains(&ino)
    }
    pub fn orphan_count(&self) -> usize {
        self.inner.lock().orphans.len()
    }
    /// A checkpoint includes all changes so far.
    pub fn committed(&self) {
        let mut inner = self.inner.lock();
        inner.changes.clear();
        inner.vacated.clear();
        inner.dir_renamed = false;
        inner.chain_broken = false;
    }
}
