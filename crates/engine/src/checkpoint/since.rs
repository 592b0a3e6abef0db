//! What happened since the last checkpoint that decides how an fsync may be done, and which inodes have no name.
use crate::lock::{Mutex, rank};
use crate::sync::atomic::{AtomicU64, Ordering};
use foldhash::HashSet;
use segno_format::Ino;
use std::collections::BTreeSet;

/// See the module. Everything but the orphans is forgotten at each checkpoint: at its boundary, the chain at its end.
#[derive(Debug, Default)]
pub struct SinceCheckpoint {
    /// Nodes that fsyncs wrote to the chain behind the checkpoint in force.
    logged: AtomicU64,
    inner: Mutex<Inner, { rank::LEAF }>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Inodes whose name changed: roll-forward cannot repeat a rename or a link.
    renamed: HashSet<Ino>,
    /// Directories from which names went, or whose own attributes changed.
    changed_dirs: HashSet<Ino>,
    /// Directory and name hash of names that an inode lost which lives on, and of removed directories. Roll-forward undoes
    /// neither, so a new file that is logged under such a name would take it from an inode that has no other, or from a
    /// directory that is full again.
    vacated: HashSet<(Ino, u32)>,
    /// A directory was renamed: paths below it are not those of the checkpoint.
    dir_renamed: bool,
    /// Inodes that lost one of their names.
    unlinked: HashSet<Ino>,
    /// Inodes that lost a node which the checkpoint or the chain has: roll-forward does not free nodes.
    nodes_freed: HashSet<Ino>,
    /// Inodes whose directory entry an fsync logged already.
    entry_logged: HashSet<Ino>,
    /// An address of the warm node log was given out and not written: recovery stops there.
    chain_broken: bool,
    orphans: BTreeSet<Ino>,
}

impl SinceCheckpoint {
    /// The next fsync of this inode must be a checkpoint.
    pub fn renamed(&self, ino: Ino) {
        self.inner.lock().renamed.insert(ino);
    }
    pub fn is_renamed(&self, ino: Ino) -> bool {
        self.inner.lock().renamed.contains(&ino)
    }
    /// A name was removed from, or replaced in, this directory.
    pub fn dir_changed(&self, dir: Ino) {
        self.inner.lock().changed_dirs.insert(dir);
    }
    pub fn is_dir_changed(&self, dir: Ino) -> bool {
        self.inner.lock().changed_dirs.contains(&dir)
    }
    /// The name was moved, or was one of several, or a directory's: a new file with this name cannot be logged.
    pub fn name_vacated(&self, dir: Ino, hash: u32) {
        self.inner.lock().vacated.insert((dir, hash));
    }
    pub fn is_name_vacated(&self, dir: Ino, hash: u32) -> bool {
        self.inner.lock().vacated.contains(&(dir, hash))
    }
    /// A directory was renamed: no new file can be logged, as any may be below it.
    pub fn dir_renamed(&self) {
        self.inner.lock().dir_renamed = true;
    }
    pub fn has_dir_renamed(&self) -> bool {
        self.inner.lock().dir_renamed
    }
    /// The inode lost a name.
    pub fn unlinked(&self, ino: Ino) {
        self.inner.lock().unlinked.insert(ino);
    }
    pub fn is_unlinked(&self, ino: Ino) -> bool {
        self.inner.lock().unlinked.contains(&ino)
    }
    /// A node of the inode that is on the device was freed: the next fsync of this inode must be a checkpoint.
    pub fn node_freed(&self, ino: Ino) {
        self.inner.lock().nodes_freed.insert(ino);
    }
    pub fn is_node_freed(&self, ino: Ino) -> bool {
        self.inner.lock().nodes_freed.contains(&ino)
    }
    /// An fsync logged the inode together with its directory entry.
    pub fn entry_logged(&self, ino: Ino) {
        self.inner.lock().entry_logged.insert(ino);
    }
    pub fn is_entry_logged(&self, ino: Ino) -> bool {
        self.inner.lock().entry_logged.contains(&ino)
    }
    /// An fsync wrote nodes to the chain.
    pub fn add_logged(&self, nodes: usize) {
        self.logged.fetch_add(nodes as u64, Ordering::Relaxed);
    }
    pub fn logged(&self) -> u64 {
        self.logged.load(Ordering::Relaxed)
    }
    /// The checkpoint that they were logged behind is in force no more, and no fsync logs anything yet.
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
    /// The inode lost its last name, or never had one.
    pub fn add_orphan(&self, ino: Ino) {
        self.inner.lock().orphans.insert(ino);
    }
    /// The same, unless there are `max` already; false then.
    pub fn try_add_orphan(&self, ino: Ino, max: usize) -> bool {
        let mut inner = self.inner.lock();
        let room = inner.orphans.len() < max;
        if room {
            inner.orphans.insert(ino);
        }
        room
    }
    /// It was freed, or got a name.
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
    /// A checkpoint takes everything so far.
    pub fn committed(&self) {
        let mut inner = self.inner.lock();
        inner.renamed.clear();
        inner.changed_dirs.clear();
        inner.vacated.clear();
        inner.dir_renamed = false;
        inner.unlinked.clear();
        inner.nodes_freed.clear();
        inner.entry_logged.clear();
        inner.chain_broken = false;
    }
}
