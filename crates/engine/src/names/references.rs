//! References by inode number. A front end that may later name an inode by its number keeps it alive, even without a
//! name or handle. Stored apart from the inodes, so that those can be evicted meanwhile.
//!
//! The kernel refers to every inode that it caches, so an entry must be small: usually one byte, in a group of inodes
//! with adjacent numbers, which are created and looked up together.
use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::memory::Memory;
use crate::names::Names;
use foldhash::HashMap;
use segno_format::Ino;
use std::sync::Arc;

const SHARDS: usize = 16;
/// Inodes in a group.
const GROUP: usize = 64;
/// A count at the limit of one byte; the excess is in [`Shard::large`].
const FULL: u8 = u8::MAX;
/// Memory of a group, and of a large count, with its part of the table.
const GROUP_BYTES: i64 = size_of::<Group>() as i64 + 48;
const LARGE_BYTES: i64 = 32;

/// Reference counts of all inodes.
#[derive(Debug)]
pub struct References {
    shards: [Mutex<Shard, { rank::LEAF }>; SHARDS],
    mem: Arc<Memory>,
}

#[derive(Debug)]
struct Group {
    counts: [u8; GROUP],
    /// Number of nonzero counts.
    used: u8,
}

#[derive(Debug, Default)]
struct Shard {
    groups: HashMap<u32, Box<Group>>,
    /// Counts beyond [`FULL`].
    large: HashMap<Ino, u64>,
}

impl Shard {
    /// Adds a reference.
    fn add(&mut self, ino: Ino) {
        let (at, i) = place(ino);
        let group = self.groups.entry(at).or_insert_with(|| Box::new(Group { counts: [0; GROUP], used: 0 }));
        match group.counts.get_mut(i) {
            Some(&mut FULL) => *self.large.entry(ino).or_default() += 1,
            Some(n) => {
                if *n == 0 {
                    group.used += 1;
                }
                *n += 1;
            }
            None => {}
        }
    }

    /// Drops references; returns true if the count dropped to zero.
    fn take(&mut self, ino: Ino, count: u64) -> bool {
        let (at, i) = place(ino);
        let Some(group) = self.groups.get_mut(&at) else { return false };
        let Some(n) = group.counts.get_mut(i).filter(|n| **n > 0) else { return false };
        let large = if *n == FULL { self.large.remove(&ino).unwrap_or(0) } else { 0 };
        let left = (u64::from(*n) + large).saturating_sub(count);
        *n = left.min(FULL.into()) as u8;
        if left > FULL.into() {
            self.large.insert(ino, left - u64::from(FULL));
        }
        if left == 0 {
            group.used -= 1;
            if group.used == 0 {
                self.groups.remove(&at);
            }
        }
        left == 0
    }

    fn has(&self, ino: Ino) -> bool {
        let (at, i) = place(ino);
        self.groups.get(&at).and_then(|g| g.counts.get(i)).is_some_and(|n| *n > 0)
    }
}

/// The group of an inode and its index in the group.
fn place(ino: Ino) -> (u32, usize) {
    (ino.0 / GROUP as u32, ino.0 as usize % GROUP)
}

impl References {
    /// `mem.references` accounts for the memory of the counts.
    pub fn new(mem: Arc<Memory>) -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), mem }
    }

    fn change<R>(&self, ino: Ino, f: impl FnOnce(&mut Shard) -> R) -> R {
        // SHARDS is a power of two, so the mask is always a valid index.
        self.change_shard(&self.shards[place(ino).0 as usize & (SHARDS - 1)], f)
    }

    fn change_shard<R>(&self, shard: &Mutex<Shard, { rank::LEAF }>, f: impl FnOnce(&mut Shard) -> R) -> R {
        let mut shard = shard.lock();
        let sizes = |s: &Shard| (s.groups.len() as i64, s.large.len() as i64);
        let before = sizes(&shard);
        let done = f(&mut shard);
        let after = sizes(&shard);
        if after != before {
            let grown = (after.0 - before.0) * GROUP_BYTES + (after.1 - before.1) * LARGE_BYTES;
            self.mem.references.add(grown);
        }
        done
    }

    /// Adds a reference: an inode without a name is kept until all references are dropped.
    pub fn add(&self, ino: Ino) {
        self.change(ino, |shard| shard.add(ino));
    }

    /// Drops references; returns true if the count dropped to zero.
    fn take(&self, ino: Ino, count: u64) -> bool {
        self.change(ino, |shard| shard.take(ino, count))
    }

    fn clear(&self) {
        self.shards.iter().for_each(|shard| self.change_shard(shard, |s| *s = Shard::default()));
    }

    /// Whether the front end refers to the inode.
    pub fn has(&self, ino: Ino) -> bool {
        self.change(ino, |shard| shard.has(ino))
    }
}

impl Names {
    /// Drops references. The last one frees an inode without a name or handle.
    pub fn drop_references(&self, ino: Ino, count: u64) -> Result<()> {
        // A concurrent removal of the last name either finds no reference, or has registered the orphan
        // before this.
        if !self.references.take(ino, count)
            || !self.nodes.since.is_orphan(ino)
            || self.base.health.check_writable().is_err()
        {
            return Ok(());
        }
        self.free_unreferenced(ino)
    }

    /// Drops all references, for a front end that starts over. Inodes without a name or handle are freed.
    pub fn drop_all_references(&self) {
        self.references.clear();
        if self.base.health.check_writable().is_err() {
            return;
        }
        for ino in self.nodes.since.orphans() {
            // An inode that cannot be freed stays an orphan.
            let _kept = self.free_unreferenced(ino);
        }
    }

    fn free_unreferenced(&self, ino: Ino) -> Result<()> {
        match self.files.inode(ino).and_then(|inode| self.free_inode(&inode)) {
            Err(Error::NotFound) => Ok(()),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUP, References};
    use segno_format::Ino;
    use std::sync::Arc;

    #[test]
    fn counts_of_any_size_are_exact() {
        let references = References::new(Arc::default());
        let (a, b) = (Ino::ROOT, Ino(1000));
        (0..1000).for_each(|_| references.add(a));
        references.add(b);
        assert!(!references.take(a, 700) && references.has(a));
        assert!(!references.take(a, 299) && references.has(a));
        assert!(references.take(a, 1) && !references.has(a));
        assert!(!references.take(a, 1), "no reference");
        assert!(references.has(b) && references.take(b, u64::MAX));
        assert_eq!(references.mem.references.get(), 0);
        (0..1000).for_each(|_| references.add(a));
        references.clear();
        assert!(!references.has(a));
        assert_eq!(references.mem.references.get(), 0);
    }

    #[test]
    fn a_million_references_take_less_than_two_bytes_each() {
        let references = References::new(Arc::default());
        let inodes = 1_000_000;
        (4..4 + inodes).for_each(|i| references.add(Ino(i)));
        assert!(
            references.mem.references.get() < 2 * u64::from(inodes),
            "{}",
            references.mem.references.get()
        );
        // Inodes far apart take a group each.
        let sparse = References::new(Arc::default());
        (0..1000).for_each(|i| sparse.add(Ino(4 + i * GROUP as u32 * 3)));
        assert!(sparse.mem.references.get() < 1000 * 128, "{}", sparse.mem.references.get());
        (4..4 + inodes).for_each(|i| assert!(references.take(Ino(i), 1)));
        assert_eq!(references.mem.references.get(), 0);
    }
}
