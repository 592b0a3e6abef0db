//! References by number: a front end that may come back to an inode by its number alone keeps it alive, though it has
//! no name and is not open. Kept beside the inodes, so that those can leave the cache meanwhile.
use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::volume::Volume;
use foldhash::HashMap;
use segno_format::Ino;

const SHARDS: usize = 16;

/// How often each inode is referred to.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    shards: [Mutex<HashMap<Ino, u64>, { rank::LEAF }>; SHARDS],
}

impl Holds {
    fn shard(&self, ino: Ino) -> &Mutex<HashMap<Ino, u64>, { rank::LEAF }> {
        // SHARDS is a power of two, so the mask is always a valid index.
        &self.shards[ino.0 as usize & (SHARDS - 1)]
    }

    pub(super) fn has(&self, ino: Ino) -> bool {
        self.shard(ino).lock().contains_key(&ino)
    }

    /// Takes references away; true if none is left.
    fn take(&self, ino: Ino, count: u64) -> bool {
        let mut shard = self.shard(ino).lock();
        let Some(held) = shard.get_mut(&ino) else { return false };
        *held = held.saturating_sub(count);
        let last = *held == 0;
        if last {
            shard.remove(&ino);
        }
        last
    }
}

impl Volume {
    /// Counts a reference: an inode that loses its last name lives until all references are given back.
    pub fn hold(&self, ino: Ino) {
        *self.holds.shard(ino).lock().entry(ino).or_default() += 1;
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
}
