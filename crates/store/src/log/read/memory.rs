//! Pieces in memory, up to a number of bytes. Pieces read ahead wait for their reader in a part of the memory
//! that others cannot take. By last use alone, pieces for a slow reader would be dropped in favour of those
//! that it has already used.
use crate::wire::names::ObjectId;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};

/// An object, and a piece of it.
pub(crate) type Key = (ObjectId, u32);

/// Purpose of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A read.
    Now,
    /// A read that may follow.
    Later,
}

struct Piece {
    bytes: Bytes,
    /// When it was last used.
    at: u64,
    waits: bool,
}

/// Bytes that may be dropped unused, in addition to as many as were used.
const SPARE: usize = 16 << 20;
/// Number of bytes after which earlier counts are halved.
const PAST: usize = 1 << 30;

#[derive(Default)]
pub(crate) struct Memory {
    pieces: HashMap<Key, Piece>,
    /// Keys by last use: of used pieces, and of pieces that wait for their reader.
    used: BTreeMap<u64, Key>,
    waiting: BTreeMap<u64, Key>,
    clock: u64,
    bytes: usize,
    waiting_bytes: usize,
    limit: usize,
    /// Bytes that were used at least once, and bytes that were dropped unused; old counts decay.
    useful: usize,
    useless: usize,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Bytes of a cache of `limit` bytes that may wait for their readers.
    pub(crate) fn prefetch_limit(limit: usize) -> usize {
        limit / 4 * 3
    }

    pub(crate) fn find(&mut self, key: &Key, why: Use) -> Option<Bytes> {
        let piece = self.remove(key)?;
        let bytes = piece.bytes.clone();
        if piece.waits && why == Use::Now {
            self.count(bytes.len(), 0);
        }
        self.put(*key, piece.bytes, piece.waits && why == Use::Later);
        Some(bytes)
    }

    pub(crate) fn insert(&mut self, key: Key, bytes: Bytes, why: Use) {
        let was_used = self.remove(&key).is_some_and(|piece| !piece.waits);
        let waits = why == Use::Later && !was_used;
        if !waits && !was_used {
            self.count(bytes.len(), 0);
        }
        self.put(key, bytes, waits);
        self.shrink();
    }

    /// Keeps a piece that was written and not read.
    pub(crate) fn keep(&mut self, key: Key, bytes: Bytes) {
        self.remove(&key);
        self.put(key, bytes, false);
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes > self.limit {
            let too_many = self.waiting_bytes > Self::prefetch_limit(self.limit) || self.used.is_empty();
            let oldest = if too_many { self.waiting.first_key_value() } else { self.used.first_key_value() };
            let Some((_, &oldest)) = oldest else { break };
            let useless =
                self.remove(&oldest).filter(|piece| piece.waits).map_or(0, |piece| piece.bytes.len());
            self.count(0, useless);
        }
    }

    /// Whether less than half of the data read is used.
    pub(crate) fn is_wasteful(&self) -> bool {
        self.useless > self.useful + SPARE
    }

    fn count(&mut self, useful: usize, useless: usize) {
        self.useful += useful;
        self.useless += useless;
        if self.useful + self.useless > PAST {
            self.useful /= 2;
            self.useless /= 2;
        }
    }

    fn put(&mut self, key: Key, bytes: Bytes, waits: bool) {
        self.clock += 1;
        self.bytes += bytes.len();
        if waits {
            self.waiting_bytes += bytes.len();
        }
        let keys = if waits { &mut self.waiting } else { &mut self.used };
        keys.insert(self.clock, key);
        self.pieces.insert(key, Piece { bytes, at: self.clock, waits });
    }

    fn remove(&mut self, key: &Key) -> Option<Piece> {
        let piece = self.pieces.remove(key)?;
        self.bytes -= piece.bytes.len();
        if piece.waits {
            self.waiting_bytes -= piece.bytes.len();
        }
        let keys = if piece.waits { &mut self.waiting } else { &mut self.used };
        keys.remove(&piece.at);
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Epoch;

    fn key(n: u32) -> Key {
        (ObjectId::Data { epoch: Epoch::new(1), number: 1 }, n)
    }

    fn filled(pieces: impl Iterator<Item = (u32, Use)>) -> Memory {
        let mut memory = Memory::new(800);
        pieces.for_each(|(n, why)| memory.insert(key(n), Bytes::from_static(&[0; 100]), why));
        memory
    }

    /// Numbers of the pieces below `of` that are in memory.
    fn there(memory: &Memory, of: u32) -> Vec<u32> {
        (0..of).filter(|&n| memory.pieces.contains_key(&key(n))).collect()
    }

    #[test]
    fn pieces_read_ahead_are_not_dropped_for_used_ones_and_take_a_part_only() {
        let mut memory = filled((0..6).map(|n| (n, Use::Later)));
        (10..20).for_each(|n| memory.insert(key(n), Bytes::from_static(&[0; 100]), Use::Now));
        assert_eq!(there(&memory, 20), [0, 1, 2, 3, 4, 5, 18, 19]);
        // Each that is used makes room for one more ahead of it.
        for n in 0..10 {
            assert!(memory.find(&key(n), Use::Now).is_some(), "{n}");
            memory.insert(key(n + 6), Bytes::from_static(&[0; 100]), Use::Later);
            assert_eq!(memory.bytes, 800);
            if n == 3 {
                assert_eq!(there(&memory, 20), [2, 3, 4, 5, 6, 7, 8, 9]);
            }
        }
    }

    #[test]
    fn pieces_that_nobody_came_for_go_when_others_are_read_ahead() {
        let memory = filled((0..20).map(|n| (n, Use::Later)));
        assert_eq!(there(&memory, 20), (12..20).collect::<Vec<_>>());
        let memory = filled((0..3).map(|n| (n, Use::Now)).chain((3..20).map(|n| (n, Use::Later))));
        assert_eq!(there(&memory, 20), [1, 2, 14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn reading_ahead_for_nobody_is_noticed_and_forgiven() {
        let mut memory = Memory::new(8 << 20);
        let piece = || Bytes::from(vec![0; 1 << 20]);
        // Eight wait still.
        (0..24).for_each(|n| memory.insert(key(n), piece(), Use::Later));
        assert!(!memory.is_wasteful());
        (24..30).for_each(|n| memory.insert(key(n), piece(), Use::Later));
        assert!(memory.is_wasteful());
        (24..30).for_each(|n| assert!(memory.find(&key(n), Use::Now).is_some()));
        assert!(!memory.is_wasteful());
        (100..1200).for_each(|n| memory.insert(key(n), piece(), Use::Later));
        assert!(memory.is_wasteful() && memory.useless < 1 << 30);
        (2000..3200).for_each(|n| memory.insert(key(n), piece(), Use::Now));
        assert!(!memory.is_wasteful());
    }

    #[test]
    fn the_least_recently_used_is_dropped_first() {
        let mut memory = filled((0..8).map(|n| (n, Use::Now)));
        assert!(memory.find(&key(0), Use::Now).is_some() && memory.find(&key(99), Use::Now).is_none());
        // Reading ahead does not change that a piece was used.
        assert!(memory.find(&key(1), Use::Later).is_some() && memory.waiting.is_empty());
        memory.insert(key(8), Bytes::from_static(&[0; 100]), Use::Now);
        memory.insert(key(0), Bytes::from_static(&[0; 100]), Use::Later);
        assert_eq!((there(&memory, 9), memory.waiting_bytes), (vec![0, 1, 3, 4, 5, 6, 7, 8], 0));
    }
}
