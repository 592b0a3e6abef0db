//! Inodes and directories.
use parking_lot::RwLock;
use rustix::io::Errno;
use segno_engine::{Attr, Time};
use segno_format::dentry::FileType;
use segno_format::inode::InodeFlags;
use segno_format::{BLOCK_SIZE, Ino};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

const SECTORS_PER_BLOCK: u64 = BLOCK_SIZE as u64 / 512;

/// An inode in memory.
pub struct Node {
    pub ino: Ino,
    pub inode: RwLock<Inode>,
    /// References of the kernel.
    pub references: AtomicU64,
    /// Looked up since the mount: lists give its attributes from the first entry on, as Segno does of inodes in its cache.
    pub is_known: AtomicBool,
    /// Number of changes.
    changes: AtomicU64,
    /// Number of changes that an fsync has covered.
    synced: AtomicU64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inode {
    pub mode: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: (u32, u32),
    pub size: u64,
    /// Seconds and nanoseconds.
    pub mtime: (i64, u32),
    pub ctime: (i64, u32),
    pub content: Content,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Content {
    /// The block of the image for each of the file, 0 for none.
    File(Vec<u32>),
    Dir(Dir),
    Link(Vec<u8>),
    /// A device, pipe or socket.
    Special,
}

/// Names in the order in which they were made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Dir {
    pub parent: u32,
    entries: BTreeMap<u64, Entry>,
    /// Position of each name.
    #[serde(skip)]
    positions: HashMap<Vec<u8>, u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub name: Vec<u8>,
    pub ino: u32,
    /// Format bits.
    pub mode: u16,
}

/// Position of the first name: `.` and `..` have 0 and 1.
pub const FIRST: u64 = 2;

impl Node {
    pub fn new(ino: Ino, mut inode: Inode) -> Self {
        if let Content::Dir(dir) = &mut inode.content {
            dir.positions = dir.entries.iter().map(|(at, entry)| (entry.name.clone(), *at)).collect();
        }
        Self {
            ino,
            inode: RwLock::new(inode),
            references: AtomicU64::new(0),
            is_known: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            synced: AtomicU64::new(0),
        }
    }

    pub fn attr(&self) -> Attr {
        self.inode.read().attr(self.ino)
    }

    /// The kernel gets a reference.
    pub fn refer(&self) {
        self.references.fetch_add(1, Ordering::AcqRel);
        self.is_known.store(true, Ordering::Relaxed);
    }

    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Calls `commit` if there are changes that none has covered.
    pub fn sync(&self, commit: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        let changes = self.changes.load(Ordering::Acquire);
        if self.synced.load(Ordering::Acquire) < changes {
            commit()?;
            self.synced.fetch_max(changes, Ordering::AcqRel);
        }
        Ok(())
    }
}

impl Inode {
    pub fn new(mode: u16, (uid, gid): (u32, u32), content: Content) -> Self {
        let now = now();
        let nlink = if matches!(content, Content::Dir(_)) { 2 } else { 1 };
        let size = match &content {
            Content::Link(target) => target.len() as u64,
            Content::Dir(_) => BLOCK_SIZE as u64,
            Content::File(_) | Content::Special => 0,
        };
        Self { mode, nlink, uid, gid, rdev: (0, 0), size, mtime: now, ctime: now, content }
    }

    pub fn attr(&self, ino: Ino) -> Attr {
        let time = |(secs, nsec): (i64, u32)| Time { secs, nsec };
        let blocks = match &self.content {
            Content::File(blocks) => blocks.iter().filter(|addr| **addr != 0).count() as u64,
            Content::Dir(_) => 1,
            Content::Link(_) | Content::Special => 0,
        };
        Attr {
            ino,
            generation: 0,
            kind: FileType::of_mode(self.mode),
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size: self.size,
            blocks: blocks * SECTORS_PER_BLOCK,
            unsettled: false,
            atime: time(self.mtime),
            mtime: time(self.mtime),
            ctime: time(self.ctime),
            crtime: None,
            flags: InodeFlags::empty(),
            projid: 0,
        }
    }

    pub fn touch(&mut self) {
        let now = now();
        (self.mtime, self.ctime) = (now, now);
    }

    pub fn dir(&self) -> Result<&Dir, Errno> {
        if let Content::Dir(dir) = &self.content { Ok(dir) } else { Err(Errno::NOTDIR) }
    }

    pub fn dir_mut(&mut self) -> Result<&mut Dir, Errno> {
        if let Content::Dir(dir) = &mut self.content { Ok(dir) } else { Err(Errno::NOTDIR) }
    }

    pub fn blocks(&self) -> Result<&Vec<u32>, Errno> {
        if let Content::File(blocks) = &self.content { Ok(blocks) } else { Err(Errno::ISDIR) }
    }

    pub fn blocks_mut(&mut self) -> Result<&mut Vec<u32>, Errno> {
        if let Content::File(blocks) = &mut self.content { Ok(blocks) } else { Err(Errno::ISDIR) }
    }
}

impl Dir {
    pub fn below(parent: Ino) -> Self {
        Self { parent: parent.0, ..Self::default() }
    }

    pub fn find(&self, name: &[u8]) -> Option<&Entry> {
        self.entries.get(self.positions.get(name)?)
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a name, or replaces the inode of one.
    pub fn put(&mut self, entry: Entry) {
        let last = self.entries.last_key_value().map_or(FIRST, |(at, _)| at + 1);
        let at = *self.positions.entry(entry.name.clone()).or_insert(last);
        self.entries.insert(at, entry);
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<Entry> {
        self.entries.remove(&self.positions.remove(name)?)
    }

    /// The entries from a position on, each with the position after it.
    pub fn from(&self, position: u64) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.range(position.max(FIRST)..).map(|(at, entry)| (at + 1, entry))
    }
}

pub fn now() -> (i64, u32) {
    let Time { secs, nsec } = SystemTime::now().into();
    (secs, nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_stay_while_names_are_added_and_removed() {
        let entry = |name: &str, ino| Entry { name: name.into(), ino, mode: 0o100_000 };
        let mut dir = Dir::below(Ino::ROOT);
        ["a", "b", "c"].into_iter().zip(10..).for_each(|(name, ino)| dir.put(entry(name, ino)));
        let list =
            |dir: &Dir, at| -> Vec<(u64, u32)> { dir.from(at).map(|(next, e)| (next, e.ino)).collect() };
        assert_eq!(list(&dir, 0), [(3, 10), (4, 11), (5, 12)]);
        assert_eq!(dir.remove(b"a").map(|e| e.ino), Some(10));
        dir.put(entry("d", 13));
        dir.put(entry("b", 14));
        assert_eq!(list(&dir, 3), [(4, 14), (5, 12), (6, 13)]);
        assert_eq!((dir.find(b"b").map(|e| e.ino), dir.find(b"a").is_none()), (Some(14), true));
    }

    #[test]
    fn an_fsync_without_changes_commits_nothing() {
        let node = Node::new(Ino(9), Inode::new(0o100_644, (0, 0), Content::File(Vec::new())));
        let mut commits = 0;
        let mut sync = |node: &Node, fails| {
            node.sync(|| {
                commits += 1;
                if fails { Err(Errno::IO) } else { Ok(()) }
            })
        };
        assert_eq!(sync(&node, false), Ok(()));
        node.changed();
        // Afterwards it is not taken for durable.
        assert_eq!(
            (sync(&node, true), sync(&node, false), sync(&node, false)),
            (Err(Errno::IO), Ok(()), Ok(()))
        );
        assert_eq!(commits, 2);
    }
}
