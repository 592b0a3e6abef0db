//! The tree of names: from the root down, then what no name leads to.
use crate::dir;
use crate::file::{File, Opened};
use crate::record::{self, Record};
use crate::volume::Volume;
use segno_format::dentry::{FileType, LOST_FOUND};
use segno_format::{BlockAddr, Ino};
use segno_layout::Pack;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Where inodes without a name go.
/// Directories above a file; longer paths are damage.
const DEPTH: usize = 4096;

/// An inode number and a name.
pub type Numbered = (u32, Box<[u8]>);

/// A name in the tree.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Index of the directory's entry; its own for the root.
    pub parent: u32,
    /// The name; empty for the root.
    pub name: Box<[u8]>,
    /// Index of the inode's record; `None` for a directory made to hold inodes without a place.
    pub record: Option<u32>,
    /// Whether no directory had this name.
    pub guessed: bool,
}

/// Names and inodes of a volume.
#[derive(Debug, Default)]
pub struct Tree {
    /// Names; a directory comes before its content. The root is the first.
    pub entries: Vec<Entry>,
    /// Inodes by number.
    pub records: Vec<Record>,
    /// Inodes that no name leads to although the directory of their name is complete.
    pub deleted: Vec<u32>,
    /// Names whose inode was not found, with the entry of their directory.
    pub dangling: Vec<Numbered>,
    /// Directories of which a part is lost, by the index of their record.
    pub incomplete: HashSet<u32>,
    /// Removed names that can still be read, by inode number, with the inode number of the directory.
    pub removed: HashMap<u32, Vec<Numbered>>,
}

struct Builder<'v, 'a> {
    volume: &'v Volume<'a>,
    tree: Tree,
    /// Entry of each placed directory, by the index of its record.
    dirs: HashMap<u32, u32>,
    placed: Vec<bool>,
    /// Directories whose inode names another parent: (entry of the directory, name, record).
    deferred: Vec<(u32, Box<[u8]>, u32)>,
    /// Names that fsync acknowledged, by directory.
    promised: HashMap<u32, Vec<Numbered>>,
    /// Directories and hashes of names in use, once anything lost is to be placed.
    taken: HashSet<(u32, u64)>,
    lost_found: Option<u32>,
    /// Blocks of directories that were read.
    blocks: HashSet<u32>,
}

impl Tree {
    /// Builds it.
    #[must_use]
    pub fn build(volume: &Volume<'_>) -> Self {
        let records = record::all(volume);
        let placed = vec![false; records.len()];
        let tree = Self { records, ..Self::default() };
        let (dirs, deferred, promised) = (HashMap::new(), Vec::new(), promised(volume));
        let mut builder = Builder {
            volume,
            tree,
            dirs,
            placed,
            deferred,
            promised,
            taken: HashSet::new(),
            lost_found: None,
            blocks: HashSet::new(),
        };
        let root = builder.tree.find(Ino::ROOT.0).filter(|&r| builder.is_dir(r));
        builder.push(Entry { parent: 0, name: Box::default(), record: root, guessed: root.is_none() });
        builder.walk(0);
        builder.place_deferred();
        builder.place_rest();
        builder.tree
    }

    /// Index of the record of an inode.
    #[must_use]
    pub fn find(&self, ino: u32) -> Option<u32> {
        self.records.binary_search_by_key(&ino, |r| r.node.nid).ok().map(|i| i as u32)
    }

    /// A record by its index.
    #[must_use]
    pub fn record(&self, i: u32) -> Option<&Record> {
        self.records.get(i as usize)
    }

    /// Names from below the root to the entry.
    #[must_use]
    pub fn components(&self, entry: u32) -> Vec<&[u8]> {
        let mut out = Vec::new();
        let mut at = entry;
        while let Some(e) = self.entries.get(at as usize).filter(|_| at != 0 && out.len() < DEPTH) {
            out.push(&*e.name);
            at = e.parent;
        }
        out.reverse();
        out
    }

    /// Path of an entry, without a slash at the beginning.
    #[must_use]
    pub fn path(&self, entry: u32) -> Vec<u8> {
        self.components(entry).join(&b'/')
    }
}

impl Builder<'_, '_> {
    fn is_dir(&self, record: u32) -> bool {
        self.tree.record(record).is_some_and(|r| r.kind == FileType::Directory)
    }

    fn push(&mut self, entry: Entry) -> u32 {
        let at = self.tree.entries.len() as u32;
        if let Some(r) = entry.record {
            if let Some(placed) = self.placed.get_mut(r as usize) {
                *placed = true;
            }
            if self.is_dir(r) {
                self.dirs.insert(r, at);
            }
        }
        if !self.taken.is_empty() {
            self.taken.insert(key(entry.parent, &entry.name));
        }
        self.tree.entries.push(entry);
        at
    }

    /// Adds everything below an entry. Each directory is entered once, so a loop ends.
    fn walk(&mut self, top: u32) {
        let mut todo = vec![top];
        while let Some(at) = todo.pop() {
            let Some(record) = self.tree.entries.get(at as usize).and_then(|e| e.record) else { continue };
            let first = self.tree.entries.len() as u32;
            self.read(at, record);
            todo.extend((first..self.tree.entries.len() as u32).rev());
        }
    }

    /// Adds the names of one directory. Other inodes have no names.
    fn read(&mut self, at: u32, record: u32) {
        let Some(r) = self.tree.record(record).copied().filter(|r| r.kind == FileType::Directory) else {
            return;
        };
        let ino = r.node.nid;
        let (mut found, mut complete) = (Vec::new(), false);
        if let Some(file) = Opened::live(self.volume, &r.node) {
            complete = dir::names(self.volume, &file, &mut self.blocks, |n| found.push(n)) && !r.old;
        }
        if !complete {
            self.tree.incomplete.insert(record);
        }
        let mut seen: HashSet<Box<[u8]>> = HashSet::new();
        let promised = self.promised.remove(&ino).unwrap_or_default();
        for (ino, name) in &promised {
            self.name(at, name.clone(), *ino);
            seen.insert(name.clone());
        }
        for n in found {
            let name: Box<[u8]> = n.name.into();
            if n.removed {
                self.tree.removed.entry(n.ino).or_default().push((ino, name));
            } else if seen.insert(name.clone()) {
                self.name(at, name, n.ino);
            }
        }
    }

    fn name(&mut self, at: u32, name: Box<[u8]>, ino: u32) {
        let Some(record) = self.tree.find(ino) else {
            self.tree.dangling.push((at, name));
            return;
        };
        let parent =
            self.tree.entries.get(at as usize).and_then(|e| e.record).and_then(|r| self.tree.record(r));
        let (parent, child) = (parent.map(|r| r.node.nid), self.tree.record(record).map(|r| r.pino));
        if !self.is_dir(record) {
            self.push(Entry { parent: at, name, record: Some(record), guessed: false });
        } else if self.placed.get(record as usize) == Some(&false) {
            // A directory has one name. If two lead to it, the one its inode stores is the newer.
            if parent == child {
                self.push(Entry { parent: at, name, record: Some(record), guessed: false });
            } else {
                self.deferred.push((at, name, record));
            }
        }
    }

    fn place_deferred(&mut self) {
        let mut i = 0;
        while let Some((parent, name, record)) = self.deferred.get(i).cloned() {
            i += 1;
            if self.placed.get(record as usize) == Some(&false) {
                let at = self.push(Entry { parent, name, record: Some(record), guessed: false });
                self.walk(at);
            }
        }
    }

    /// Inodes that no name leads to are lost, or were deleted.
    fn place_rest(&mut self) {
        let unplaced = |b: &Self| -> Vec<u32> {
            (0u32..).zip(&b.placed).filter(|(_, p)| !**p).map(|(i, _)| i).collect()
        };
        self.taken = self.tree.entries.iter().map(|e| key(e.parent, &e.name)).collect();
        let is_it = |e: &Entry| e.parent == 0 && *e.name == *LOST_FOUND;
        self.lost_found = self.tree.entries.iter().position(is_it).map(|at| at as u32);
        // Directories first, so that their entries keep their names.
        let (dirs, others): (Vec<u32>, Vec<u32>) = unplaced(self).into_iter().partition(|&r| self.is_dir(r));
        let orphans: HashSet<u32> = self
            .volume
            .pack
            .iter()
            .flat_map(Pack::orphans)
            .filter_map(Result::ok)
            .flatten()
            .map(|nid| nid.0)
            .collect();
        for record in dirs.into_iter().chain(others) {
            if self.placed.get(record as usize) != Some(&false) {
                continue;
            }
            let Some(r) = self.tree.record(record).copied() else { continue };
            let ino = r.node.nid;
            if self.is_deleted(record, &orphans) {
                self.tree.deleted.push(ino);
            } else if !self.is_quota(&r) && ino != Ino::ROOT.0 {
                let at = self.lost(record, &r);
                self.walk(at);
            }
        }
    }

    /// Follows the parents that inodes store up to one that is placed.
    fn is_deleted(&self, mut record: u32, orphans: &HashSet<u32>) -> bool {
        for _ in 0..DEPTH {
            let Some(r) = self.tree.record(record) else { return false };
            if orphans.contains(&r.node.nid) || r.links == 0 {
                return true;
            }
            if r.named && self.volume.nat.is_some() || self.volume.in_use(&r.node) {
                return false;
            }
            let Some(parent) = self.tree.find(r.pino) else { return false };
            if !self.is_dir(parent) {
                // The number of the parent was given to something else since.
                return true;
            }
            if self.placed.get(parent as usize) == Some(&true) {
                return !self.tree.incomplete.contains(&parent);
            }
            record = parent;
        }
        true
    }

    /// Gives a lost inode the name that it stores, or its number.
    fn lost(&mut self, record: u32, r: &Record) -> u32 {
        let file = File::read(self.volume, &r.node);
        let name: Box<[u8]> = file.map(|f| f.raw().name().into()).unwrap_or_default();
        let parent = self.tree.find(r.pino).and_then(|p| self.dirs.get(&p).copied());
        if let Some(parent) = parent.filter(|_| !name.is_empty())
            && !self.taken.contains(&key(parent, &name))
        {
            return self.push(Entry { parent, name, record: Some(record), guessed: true });
        }
        let parent = self.lost_found();
        let mut name = r.node.nid.to_string();
        let mut n = 2;
        while self.taken.contains(&key(parent, name.as_bytes())) {
            name = format!("{}-{n}", r.node.nid);
            n += 1;
        }
        self.push(Entry { parent, name: name.into_bytes().into(), record: Some(record), guessed: true })
    }

    fn lost_found(&mut self) -> u32 {
        if let Some(at) = self.lost_found {
            return at;
        }
        let at = self.push(Entry { parent: 0, name: LOST_FOUND.into(), record: None, guessed: true });
        self.lost_found = Some(at);
        at
    }

    /// Quota files have no names.
    fn is_quota(&self, r: &Record) -> bool {
        match &self.volume.superblock {
            Some(sb) => sb.quota_inos().contains(&Some(r.node.nid)),
            None => r.node.nid < 8 && r.pino == 0,
        }
    }
}

fn key(parent: u32, name: &[u8]) -> (u32, u64) {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    (parent, hasher.finish())
}

/// Names of inodes that fsync wrote after the checkpoint.
fn promised(volume: &Volume<'_>) -> HashMap<u32, Vec<Numbered>> {
    let mut out: HashMap<u32, Vec<Numbered>> = HashMap::new();
    for &addr in &volume.chain.dents {
        let file = volume.nodes.at_addr(BlockAddr(addr)).and_then(|n| File::read(volume, n));
        if let Some(file) = file.filter(|f| !f.raw().name().is_empty()) {
            let names = out.entry(file.raw().i_pino.get()).or_default();
            names.retain(|(_, name)| **name != *file.raw().name());
            names.push((file.node.nid, file.raw().name().into()));
        }
    }
    out
}
