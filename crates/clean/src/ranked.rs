//! An ordered set with access by rank: chunks of sorted keys, so that finding a rank walks over the lengths
//! of a few hundred chunks.

/// Age stamp and section.
pub type Key = (u64, u32);

/// A chunk with more keys is split in two.
const CHUNK: usize = 1024;

/// The set.
#[derive(Clone, Debug, Default)]
pub struct Ranked {
    /// None is empty.
    chunks: Vec<Vec<Key>>,
    len: usize,
}

impl Ranked {
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn first(&self) -> Option<Key> {
        self.chunks.first()?.first().copied()
    }
    pub fn last(&self) -> Option<Key> {
        self.chunks.last()?.last().copied()
    }

    /// The chunk that a key belongs to: the last that begins at or before it, or the first.
    fn chunk_of(&self, key: Key) -> usize {
        self.chunks.partition_point(|c| c.first().is_some_and(|&first| first <= key)).saturating_sub(1)
    }

    pub fn insert(&mut self, key: Key) {
        let i = self.chunk_of(key);
        let Some(chunk) = self.chunks.get_mut(i) else {
            self.chunks.push(vec![key]);
            self.len = 1;
            return;
        };
        let Err(at) = chunk.binary_search(&key) else { return };
        chunk.insert(at, key);
        self.len += 1;
        if chunk.len() > CHUNK {
            let upper = chunk.split_off(CHUNK / 2);
            self.chunks.insert(i + 1, upper);
        }
    }

    pub fn remove(&mut self, key: Key) {
        let i = self.chunk_of(key);
        let Some(chunk) = self.chunks.get_mut(i) else { return };
        let Ok(at) = chunk.binary_search(&key) else { return };
        chunk.remove(at);
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(i);
        }
    }

    /// The key at a rank.
    pub fn at(&self, mut place: usize) -> Option<Key> {
        for chunk in &self.chunks {
            if let Some(key) = chunk.get(place) {
                return Some(*key);
            }
            place -= chunk.len();
        }
        None
    }

    /// Number of keys with this age stamp or an older one.
    pub fn up_to(&self, mtime: u64) -> usize {
        let end = (mtime, u32::MAX);
        let i = self.chunk_of(end);
        let before: usize = self.chunks.iter().take(i).map(Vec::len).sum();
        before + self.chunks.get(i).map_or(0, |c| c.partition_point(|&k| k <= end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_a_plain_set() {
        let (mut ranked, mut plain) = (Ranked::default(), BTreeSet::new());
        let mut random = 1u64;
        for step in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = ((random >> 40) % 3000, (random >> 33) as u32 % 4);
            // Grows, then shrinks to nothing.
            if (random >> 20) % 10 < if step < 12_000 { 7 } else { 1 } {
                ranked.insert(key);
                plain.insert(key);
            } else {
                ranked.remove(key);
                plain.remove(&key);
            }
            assert_eq!(ranked.len(), plain.len());
            if step % 97 == 0 {
                assert_eq!((ranked.first(), ranked.last()), (plain.first().copied(), plain.last().copied()));
                let place = (random >> 10) as usize % (plain.len() + 2);
                assert_eq!(ranked.at(place), plain.iter().nth(place).copied());
                assert_eq!(ranked.up_to(key.0), plain.iter().filter(|k| k.0 <= key.0).count());
            }
        }
        assert!(ranked.chunks.iter().all(|c| !c.is_empty() && c.len() <= CHUNK));
    }
}
