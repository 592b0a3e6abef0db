//! References by number: a front end that may come back to an inode by its number alone keeps it alive, though it has
//! no name and is not open. Kept beside the inodes, so that those can leave the cache meanwhile.
//!
//! The kernel refers to every inode that it caches, so an entry has to be small: mostly one byte, in a group of inodes
//! that were made, and are looked up, together.
use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::memory::Counter;
use crate::volume::Volume;
use foldhash::HashMap;
use segno_format::Ino;

const SHARDS: usize = 16;
/// Inodes in a group.
const GROUP: usize = 64;
/// A count of one byte that stands for itself and what [`Shard::large`] has.
const FULL: u8 = u8::MAX;
/// Memory of a group, and of a large count, with its part of the table.
const GROUP_BYTES: u64 = size_of::<Group>() as u64 + 48;
const LARGE_BYTES: u64 = 32;

/// How often each inode is referred to.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    shards: [Mutex<Shard, { rank::LEAF }>; SHARDS],
    groups: Counter,
    larges: Counter,
}

#[derive(Debug)]
struct Group {
    counts: [u8; GROUP],
    /// Counts that are not 0.
    used: u8,
}

#[derive(Debug, Default)]
struct Shard {
    groups: HashMap<u32, Box<Group>>,
    /// What goes beyond [`FULL`].
    large: HashMap<Ino, u64>,
}

impl Shard {
    /// Counts one more reference.
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

    /// Takes references away; true if there were any and none is left.
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

/// The group of an inode, and its place there.
fn place(ino: Ino) -> (u32, usize) {
    (ino.0 / GROUP as u32, ino.0 as usize % GROUP)
}

impl Holds {
    fn change<R>(&self, ino: Ino, f: impl FnOnce(&mut Shard) -> R) -> R {
        // SHARDS is a power of two, so the mask is always a valid index.
        let mut shard = self.shards[place(ino).0 as usize & (SHARDS - 1)].lock();
        let sizes = |s: &Shard| (s.groups.len() as i64, s.large.len() as i64);
        let before = sizes(&shard);
        let done = f(&mut shard);
        let after = sizes(&shard);
        if after != before {
            self.groups.add(after.0 - before.0);
            self.larges.add(after.1 - before.1);
        }
        done
    }

    fn add(&self, ino: Ino) {
        self.change(ino, |shard| shard.add(ino));
    }

    /// Takes references away; true if there were any and none is left.
    fn take(&self, ino: Ino, count: u64) -> bool {
        self.change(ino, |shard| shard.take(ino, count))
    }

    pub(super) fn has(&self, ino: Ino) -> bool {
        self.change(ino, |shard| shard.has(ino))
    }

    /// Memory that the counts take.
    pub(crate) fn bytes(&self) -> u64 {
        self.groups.get() * GROUP_BYTES + self.larges.get() * LARGE_BYTES
    }
}

impl Volume {
    /// Counts a reference: an inode that loses its last name lives until all references are given back.
    pub fn hold(&self, ino: Ino) {
        self.holds.add(ino);
    }

    /// Gives references back. An inode without a name that is not open goes with the last one.
    pub fn unhold(&self, ino: Ino, count: u64) -> Result<()> {
        // Whoever takes the last name either finds the reference gone, or registered the orphan before it went.
        if !self.holds.take(ino, count) || !self.since.is_orphan(ino) || self.check_writable().is_err() {
            return Ok(());
        }
        match self.inode(ino).and_then(|inode| self.free_inode(&inode)) {
            Err(Error::NotFound) => Ok(()),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUP, Holds};
    use crate::data::test_rig::Rig;
    use segno_format::{Features, Ino};

    #[test]
    fn an_inode_without_a_name_lives_as_long_as_it_is_referred_to() {
        let rig = Rig::new(Features::empty());
        let ino = rig.create(b"f").ino;
        let v = &rig.volume;
        v.write(ino, 0, b"data").unwrap();
        v.hold(ino);
        v.hold(ino);
        v.unlink(Ino::ROOT, b"f").unwrap();
        assert_eq!((rig.read(ino, 0, 9), v.getattr(ino).unwrap().nlink), (b"data".to_vec(), 0));
        // An open handle counts as well, in whatever order they go.
        v.open(ino).unwrap();
        v.unhold(ino, 1).unwrap();
        v.release(ino).unwrap();
        assert!(v.exists(ino).unwrap() && v.since.is_orphan(ino));
        v.unhold(ino, 1).unwrap();
        assert!(!v.exists(ino).unwrap() && !v.since.is_orphan(ino));
        v.unhold(ino, 1).unwrap();
    }

    #[test]
    fn giving_references_back_frees_nothing_that_has_a_name() {
        let rig = Rig::new(Features::empty());
        let ino = rig.create(b"f").ino;
        rig.volume.hold(ino);
        rig.volume.unhold(ino, u64::MAX).unwrap();
        assert_eq!(rig.volume.lookup(Ino::ROOT, b"f").unwrap().ino, ino);
        // Nobody refers to it now: the last name takes the inode with it.
        rig.volume.unlink(Ino::ROOT, b"f").unwrap();
        assert!(!rig.volume.exists(ino).unwrap());
    }

    #[test]
    fn counts_of_any_size_are_exact() {
        let holds = Holds::default();
        let (a, b) = (Ino::ROOT, segno_format::Nid(1000));
        (0..1000).for_each(|_| holds.add(a));
        holds.add(b);
        assert!(!holds.take(a, 700) && holds.has(a));
        assert!(!holds.take(a, 299) && holds.has(a));
        assert!(holds.take(a, 1) && !holds.has(a));
        assert!(!holds.take(a, 1), "there is none");
        assert!(holds.has(b) && holds.take(b, u64::MAX));
        assert_eq!(holds.bytes(), 0);
    }

    #[test]
    fn a_million_references_take_less_than_two_bytes_each() {
        let holds = Holds::default();
        let inodes = 1_000_000;
        (4..4 + inodes).for_each(|i| holds.add(segno_format::Nid(i)));
        assert!(holds.bytes() < 2 * u64::from(inodes), "{}", holds.bytes());
        // Far apart they take a group each.
        let sparse = Holds::default();
        (0..1000).for_each(|i| sparse.add(segno_format::Nid(4 + i * GROUP as u32 * 3)));
        assert!(sparse.bytes() < 1000 * 128, "{}", sparse.bytes());
        (4..4 + inodes).for_each(|i| assert!(holds.take(segno_format::Nid(i), 1)));
        assert_eq!(holds.bytes(), 0);
    }
}
