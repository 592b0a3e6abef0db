//! What is kept of inodes that were judged by themselves, in a few bytes each.
use super::named::Named;
use crate::quota::Owners;
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::nat::nat_index;
use segno_format::{BlockAddr, Nid};

/// Bytes kept at most. What finds no room is read again when the walk reaches it.
const LIMIT: usize = 96 << 20;

/// An inode without nodes of its own that agrees with itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub named: Named,
    /// Slots that count without a place.
    pub reserved: u32,
    /// On volumes with quotas.
    pub owners: Option<Owners>,
    /// Its data blocks: runs of neighbours.
    pub runs: Vec<(BlockAddr, u32)>,
}

impl Kept {
    fn put(&self, out: &mut Vec<u8>) {
        let Named { file_type, links, pino, lost_pino } = self.named;
        let flags = u8::from(lost_pino) | u8::from(self.owners.is_some()) << 1;
        out.extend([file_type, flags]);
        let owners = self.owners.iter().flat_map(|o| o.0);
        let head = [links, pino, self.reserved].into_iter().chain(owners);
        let runs = self.runs.iter().flat_map(|(addr, count)| [addr.0, *count]);
        for n in head.chain([self.runs.len() as u32]).chain(runs) {
            put(n, out);
        }
    }

    fn take(mut bytes: &[u8]) -> Option<Self> {
        let (&[file_type, flags], rest) = bytes.split_first_chunk::<2>()?;
        bytes = rest;
        let mut next = || take(&mut bytes);
        let (links, pino, reserved) = (next()?, next()?, next()?);
        let owners = if flags & 2 == 0 { None } else { Some(Owners([next()?, next()?, next()?])) };
        let runs = (0..next()?).map(|_| Some((BlockAddr(next()?), next()?))).collect::<Option<_>>()?;
        let named = Named { file_type, links, pino, lost_pino: flags & 1 != 0 };
        Some(Self { named, reserved, owners, runs })
    }

    /// Blocks that i_blocks counts.
    pub(super) fn blocks(&self) -> u64 {
        let data: u64 = self.runs.iter().map(|(_, count)| u64::from(*count)).sum();
        data.saturating_add(self.reserved.into()).saturating_add(1)
    }

    /// Addresses of its data blocks.
    pub(super) fn data(&self) -> impl Iterator<Item = BlockAddr> + '_ {
        self.runs.iter().flat_map(|(addr, count)| (0..*count).map(|i| addr.offset(i)))
    }
}

/// Seven bits a byte, the lowest first; the last byte has the high bit clear.
fn put(mut n: u32, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u32> {
    let mut n = 0u32;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

/// What one worker keeps of a window.
pub(super) struct Shelf {
    room: usize,
    bytes: Vec<u8>,
    /// Where in the bytes each inode is.
    list: Vec<(Nid, u32)>,
}

impl Shelf {
    pub(super) fn new(room: usize) -> Self {
        Self { room, bytes: Vec::new(), list: Vec::new() }
    }

    pub(super) fn add(&mut self, ino: Nid, kept: &Kept) {
        if self.bytes.len() < self.room {
            self.list.push((ino, self.bytes.len() as u32));
            kept.put(&mut self.bytes);
        }
    }
}

/// What all workers kept.
#[derive(Default)]
pub(super) struct Shelves {
    bytes: Vec<u8>,
    /// By nid, in blocks like those of the NAT: one more than the offset in the bytes; 0 where nothing is kept.
    places: Vec<Option<Box<[u32; NAT_PER_BLOCK as usize]>>>,
}

impl Shelves {
    /// Bytes that can still be kept.
    pub(super) fn room(&self) -> usize {
        LIMIT.saturating_sub(self.bytes.len())
    }

    pub(super) fn add(&mut self, shelf: Shelf) {
        for (ino, offset) in shelf.list {
            // The limit is far below 2^32.
            self.place(ino, self.bytes.len() as u32 + offset + 1);
        }
        self.bytes.extend(shelf.bytes);
    }

    fn place(&mut self, ino: Nid, place: u32) {
        let (b, i) = nat_index(ino);
        if self.places.len() <= b as usize {
            self.places.resize_with(b as usize + 1, || None);
        }
        let block = self.places.get_mut(b as usize);
        let slots = block.map(|b| b.get_or_insert_with(|| Box::new([0; NAT_PER_BLOCK as usize])));
        if let Some(slot) = slots.and_then(|s| s.get_mut(i)) {
            *slot = place;
        }
    }

    fn find(&self, ino: Nid) -> Option<&[u8]> {
        let (b, i) = nat_index(ino);
        let place = self.places.get(b as usize)?.as_ref()?.get(i)?.checked_sub(1)?;
        self.bytes.get(place as usize..)
    }

    /// Whether an inode is kept.
    pub(super) fn has(&self, ino: Nid) -> bool {
        self.find(ino).is_some()
    }

    pub(super) fn get(&self, ino: Nid) -> Option<Kept> {
        self.find(ino).and_then(Kept::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let plain =
            Kept { named: Named { file_type: 1, links: 1, pino: 3, lost_pino: false }, ..Kept::default() };
        let full = Kept {
            named: Named { lost_pino: true, links: u32::MAX, ..plain.named },
            reserved: 128,
            owners: Some(Owners([0, 1000, u32::MAX])),
            runs: vec![(BlockAddr(u32::MAX), 1), (BlockAddr(70_000), 923)],
        };
        let (mut first, mut second) = (Shelf::new(1000), Shelf::new(10));
        first.add(Nid(4), &plain);
        first.add(Nid(100_000), &full);
        second.add(Nid(5), &full);
        second.add(Nid(6), &plain);
        let mut shelves = Shelves::default();
        shelves.add(first);
        shelves.add(second);
        assert_eq!(shelves.get(Nid(4)), Some(plain));
        assert_eq!(shelves.get(Nid(5)), Some(full.clone()));
        assert_eq!(shelves.get(Nid(100_000)), Some(full));
        assert!(!shelves.has(Nid(6)), "the second shelf was full");
        assert!(!shelves.has(Nid(7)) && !shelves.has(Nid(u32::MAX)));
    }

    #[test]
    fn a_small_file_takes_a_dozen_bytes() {
        let mut out = Vec::new();
        let runs = vec![(BlockAddr(3_000_000), 2)];
        let named = Named { file_type: 1, links: 1, pino: 70_000, lost_pino: false };
        Kept { named, runs, ..Kept::default() }.put(&mut out);
        assert_eq!(out.len(), 13);
    }
}
