//! Pieces on local disk, up to a number of bytes. A piece is used only if its checksum is right. The checksum
//! covers the identity of the piece and its object, so neither an old index nor damage gives other data, and
//! no flush is needed.
use crate::Result;
use crate::ids::{Epoch, Seq};
use crate::local::private_dir::PrivateDir;
use crate::wire::codec::{Decoder, Encoder};
use crate::wire::names::{Name, ObjectId};
use crate::wire::pieces::{self, PIECE_BLOCKS};
use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tokio::task::spawn_blocking;

const PIECES: &str = "pieces";
const INDEX: &str = "index";
/// An index of the first version does not record the history of its pieces.
const MAGIC: &[u8; 8] = b"SEGNOIX2";
/// A place for a piece: the next multiple of a page.
const SLOT: u64 = 17 * 4096;
/// Bytes of an index: magic, the state that its mount saw, count and checksum.
const HEADER: u64 = 8 + 4 + 16 + 8 + 4 + 4;
/// Bytes of an index entry.
const ENTRY: u64 = 1 + 4 + 8 + 4 + 4 + 4;
/// Maximum number of pieces that wait to be written: 32 MiB. Further ones are not kept.
const WRITES: usize = 512;

type Key = (ObjectId, u32);

/// A state of the volume that a mount with this cache has seen in the store. Names of objects are used again
/// when the store is set back to an earlier state, so pieces are used only if the store still has that state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub epoch: Epoch,
    /// The session of the epoch, which is random. A store that has it has all earlier epochs unchanged.
    pub session: [u8; 16],
    /// The last commit.
    pub seq: Seq,
}

pub(crate) struct Disk {
    volume: [u8; 16],
    file: File,
    dir: Arc<PrivateDir>,
    seen: Mutex<Option<Seen>>,
    slots: Mutex<Slots>,
    writes: tokio::sync::Semaphore,
}

/// Which slot has which piece. A slot for a new piece is taken from one that was not read since the hand
/// passed it.
#[derive(Debug, Default)]
struct Slots {
    places: HashMap<Key, Place>,
    owners: Vec<Owner>,
    hand: usize,
    limit: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    slot: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    key: Option<Key>,
    used: bool,
    /// Whether a piece is being written.
    busy: bool,
}

impl Slots {
    fn find(&mut self, key: &Key) -> Option<Place> {
        let place = *self.places.get(key)?;
        if let Some(owner) = self.owners.get_mut(place.slot as usize) {
            owner.used = true;
        }
        Some(place)
    }

    /// A slot for a new piece.
    fn take(&mut self) -> Option<u32> {
        if self.owners.len() < self.limit {
            self.owners.push(Owner { busy: true, ..Owner::default() });
            return Some(self.owners.len() as u32 - 1);
        }
        for _ in 0..2 * self.owners.len() {
            let slot = self.hand;
            self.hand = (slot + 1) % self.owners.len().max(1);
            let Some(owner) = self.owners.get_mut(slot) else { continue };
            if owner.busy || std::mem::take(&mut owner.used) {
                continue;
            }
            if let Some(key) = owner.key.take() {
                self.places.remove(&key);
            }
            owner.busy = true;
            return Some(slot as u32);
        }
        None
    }

    /// Records whether a slot was written.
    fn settle(&mut self, slot: u32, written: Option<(Key, u32)>) {
        let Some(owner) = self.owners.get_mut(slot as usize) else { return };
        owner.busy = false;
        if let Some((key, len)) = written.filter(|(key, _)| !self.places.contains_key(key)) {
            owner.key = Some(key);
            self.places.insert(key, Place { slot, len });
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some(place) = self.places.remove(key)
            && let Some(owner) = self.owners.get_mut(place.slot as usize)
        {
            owner.key = None;
        }
    }
}

impl Disk {
    /// Opens the pieces in a directory, including those of the last mount.
    pub(crate) fn open(dir: &Arc<PrivateDir>, bytes: u64, volume: [u8; 16]) -> io::Result<Self> {
        let file = dir.file(PIECES, OFlags::RDWR | OFlags::CREATE)?;
        let limit = usize::try_from(bytes / SLOT).unwrap_or(usize::MAX).min(u32::MAX as usize);
        let mut slots = Slots { limit, ..Slots::default() };
        // An index that is damaged, or missing after a kill, costs reads.
        let found = dir.read(INDEX, HEADER + ENTRY.saturating_mul(limit as u64));
        let found = found.ok().and_then(|bytes| read_index(&bytes, limit).ok());
        let (seen, pieces) = found.unzip();
        for (key, place) in pieces.unwrap_or_default() {
            let owners = slots.owners.len().max(place.slot as usize + 1);
            slots.owners.resize(owners, Owner::default());
            slots.settle(place.slot, Some((key, place.len)));
        }
        file.set_len(file.metadata()?.len().min(limit as u64 * SLOT))?;
        Ok(Self {
            volume,
            file,
            dir: dir.clone(),
            seen: Mutex::new(seen),
            slots: Mutex::new(slots),
            writes: tokio::sync::Semaphore::new(WRITES),
        })
    }

    /// The state that was seen by the mount that stored the index.
    pub(crate) fn seen(&self) -> Option<Seen> {
        *self.seen.lock()
    }

    /// Records the state whose history the pieces belong to.
    pub(crate) fn set_seen(&self, seen: Seen) {
        *self.seen.lock() = Some(seen);
    }

    /// Drops all pieces.
    pub(crate) fn clear(&self) {
        let mut slots = self.slots.lock();
        *slots = Slots { limit: slots.limit, ..Slots::default() };
        *self.seen.lock() = None;
    }

    /// Whether a piece may be there.
    pub(crate) fn has(&self, id: ObjectId, piece: u32) -> bool {
        self.slots.lock().places.contains_key(&(id, piece))
    }

    /// Reads pieces; `None` if one is missing.
    pub(crate) async fn read(self: &Arc<Self>, id: ObjectId, range: Range<u32>) -> Option<Vec<Bytes>> {
        let disk = self.clone();
        let read = spawn_blocking(move || range.map(|piece| disk.read_piece((id, piece))).collect());
        read.await.ok().flatten()
    }

    fn read_piece(&self, key: Key) -> Option<Bytes> {
        let place = self.slots.lock().find(&key)?;
        let mut bytes = vec![0; place.len as usize];
        let read = self.file.read_exact_at(&mut bytes, u64::from(place.slot) * SLOT);
        let decoded = read.ok().and_then(|()| pieces::decode(&self.volume, key.0, key.1, &bytes.into()));
        match decoded.as_deref() {
            Some([piece]) => Some(piece.clone()),
            _ => {
                self.slots.lock().forget(&key);
                None
            }
        }
    }

    /// Keeps pieces as they are stored, from `first` on. If the disk fails or is slow, fewer are kept.
    pub(crate) fn keep(self: &Arc<Self>, id: ObjectId, first: u32, stored: &Bytes) {
        let step = pieces::encoded_len(PIECE_BLOCKS);
        let places = (first..).zip((0..stored.len()).step_by(step));
        let new: Vec<(u32, usize)> = places.filter(|&(piece, _)| !self.has(id, piece)).collect();
        let Ok(turn) = self.writes.try_acquire_many(new.len() as u32) else { return };
        turn.forget();
        let (disk, stored) = (self.clone(), stored.clone());
        spawn_blocking(move || {
            for &(piece, at) in &new {
                let end = stored.len().min(at + step);
                disk.write_piece((id, piece), stored.get(at..end).unwrap_or_default());
            }
            disk.writes.add_permits(new.len());
        });
    }

    fn write_piece(&self, key: Key, bytes: &[u8]) {
        let Some(slot) = self.slots.lock().take() else { return };
        let written = self.file.write_all_at(bytes, u64::from(slot) * SLOT).is_ok();
        self.slots.lock().settle(slot, written.then_some((key, bytes.len() as u32)));
    }

    /// Stores the index for the next mount.
    pub(crate) fn save(&self) -> io::Result<()> {
        let Some(seen) = self.seen() else { return Ok(()) };
        let mut e = Encoder::new(MAGIC);
        e.epoch(seen.epoch);
        e.raw(&seen.session);
        e.seq(seen.seq);
        {
            let slots = self.slots.lock();
            e.u32(slots.places.len() as u32);
            for (&(id, piece), place) in &slots.places {
                e.object(id);
                e.u32(piece);
                e.u32(place.slot);
                e.u32(place.len);
            }
        }
        let file = self.dir.file(INDEX, OFlags::WRONLY | OFlags::CREATE)?;
        file.set_len(0)?;
        file.write_all_at(&e.finish(), 0)
    }
}

fn read_index(bytes: &[u8], limit: usize) -> Result<(Seen, Vec<(Key, Place)>)> {
    // The name is for messages, and no message is shown.
    let mut d = Decoder::new(Name::Volume, MAGIC, bytes)?;
    let seen = Seen { epoch: d.epoch()?, session: d.array()?, seq: d.seq()? };
    let count = d.count(ENTRY)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let (key, place) = ((d.object()?, d.u32()?), Place { slot: d.u32()?, len: d.u32()? });
        if (place.slot as usize) < limit && u64::from(place.len) <= SLOT {
            entries.push((key, place));
        }
    }
    Ok((seen, entries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_format::BLOCK_SIZE;
    use std::fs;
    use std::path::Path;

    const VOLUME: [u8; 16] = [3; 16];
    const SEEN: Seen = Seen { epoch: Epoch::new(1), session: [5; 16], seq: Seq::new(9) };

    fn id(number: u64) -> ObjectId {
        ObjectId::Data { epoch: Epoch::new(1), number }
    }

    fn open(dir: &Path, bytes: u64, volume: [u8; 16]) -> Disk {
        Disk::open(&Arc::new(PrivateDir::open(dir).unwrap()), bytes, volume).unwrap()
    }

    /// Forty blocks: two pieces and a half.
    fn stored(id: ObjectId) -> Bytes {
        let mut out = Vec::new();
        pieces::encode(&VOLUME, id, &[&[7; 40 * BLOCK_SIZE]], &mut out);
        out.into()
    }

    /// Writes as `keep` does, at once.
    fn keep(disk: &Disk, id: ObjectId) {
        let step = pieces::encoded_len(PIECE_BLOCKS);
        for (piece, chunk) in (0..).zip(stored(id).chunks(step)) {
            disk.write_piece((id, piece), chunk);
        }
    }

    #[test]
    fn pieces_are_read_back_also_by_the_next_mount() {
        let dir = tempfile::tempdir().unwrap();
        let disk = open(dir.path(), 10 * SLOT, VOLUME);
        keep(&disk, id(1));
        assert_eq!(disk.read_piece((id(1), 2)).unwrap(), vec![7; 8 * BLOCK_SIZE]);
        assert!(disk.read_piece((id(1), 3)).is_none() && disk.read_piece((id(2), 0)).is_none());
        disk.set_seen(SEEN);
        disk.save().unwrap();
        let disk = open(dir.path(), 10 * SLOT, VOLUME);
        assert_eq!(disk.seen(), Some(SEEN));
        assert_eq!(disk.read_piece((id(1), 0)).unwrap(), vec![7; 16 * BLOCK_SIZE]);
        disk.clear();
        assert!(disk.read_piece((id(1), 0)).is_none());
        let other = open(dir.path(), 10 * SLOT, [4; 16]);
        assert!(other.read_piece((id(1), 0)).is_none(), "another volume");
    }

    #[test]
    fn the_bound_is_kept_and_what_is_read_stays_longer() {
        let dir = tempfile::tempdir().unwrap();
        let disk = open(dir.path(), 6 * SLOT, VOLUME);
        for number in 0..20 {
            keep(&disk, id(number));
            assert!(disk.read_piece((id(0), 0)).is_some(), "{number}");
        }
        assert!(dir.path().join(PIECES).metadata().unwrap().len() <= 6 * SLOT);
        assert!(disk.slots.lock().places.len() <= 6);
    }

    #[test]
    fn damage_and_an_old_index_are_misses() {
        let dir = tempfile::tempdir().unwrap();
        let disk = open(dir.path(), 3 * SLOT, VOLUME);
        keep(&disk, id(1));
        disk.set_seen(SEEN);
        disk.save().unwrap();
        keep(&disk, id(2));
        // Killed: the index is that of before.
        let disk = open(dir.path(), 3 * SLOT, VOLUME);
        assert!((0..3).all(|piece| disk.read_piece((id(1), piece)).is_none()));
        fs::write(dir.path().join(INDEX), b"nonsense").unwrap();
        let disk = open(dir.path(), 3 * SLOT, VOLUME);
        keep(&disk, id(3));
        let place = disk.slots.lock().find(&(id(3), 1)).unwrap();
        disk.file.write_all_at(&[9], u64::from(place.slot) * SLOT + 5).unwrap();
        assert!(disk.read_piece((id(3), 1)).is_none());
        assert!(disk.read_piece((id(3), 0)).is_some());
    }
}
