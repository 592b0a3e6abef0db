//! A set of numbers with a fast "first member at or after".

/// Bitmap with one bit per number.
#[derive(Debug, Default)]
pub struct BitSet {
    words: Vec<u64>,
    len: u64,
}

impl BitSet {
    pub fn new(capacity: usize) -> Self {
        Self { words: vec![0; capacity.div_ceil(64)], len: 0 }
    }
    pub fn len(&self) -> u64 {
        self.len
    }
    pub fn contains(&self, i: u32) -> bool {
        self.words.get(i as usize / 64).is_some_and(|w| w >> (i % 64) & 1 == 1)
    }
    /// Adds or removes `i`; false if it is beyond the capacity.
    #[must_use]
    pub fn put(&mut self, i: u32, member: bool) -> bool {
        let Some(w) = self.words.get_mut(i as usize / 64) else { return false };
        let bit = 1u64 << (i % 64);
        if member && *w & bit == 0 {
            *w |= bit;
            self.len += 1;
        } else if !member && *w & bit != 0 {
            *w &= !bit;
            self.len -= 1;
        }
        true
    }
    /// First member at or after `from`.
    pub fn next(&self, from: u32) -> Option<u32> {
        let (mut i, mut mask) = (from as usize / 64, u64::MAX << (from % 64));
        while let Some(w) = self.words.get(i) {
            let hit = w & mask;
            if hit != 0 {
                return Some(i as u32 * 64 + hit.trailing_zeros());
            }
            mask = u64::MAX;
            i += 1;
        }
        None
    }
    /// First member at or after `from`, else the first of all.
    pub fn next_wrapping(&self, from: u32) -> Option<u32> {
        self.next(from).or_else(|| self.next(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_finds_members_in_order() {
        let mut s = BitSet::new(200);
        for i in [0, 63, 64, 130, 199] {
            assert!(s.put(i, true));
        }
        assert!(s.put(64, false) && !s.put(256, true));
        assert_eq!(s.len(), 4);
        let found: Vec<u32> = std::iter::successors(s.next(0), |&i| s.next(i + 1)).collect();
        assert_eq!(found, [0, 63, 130, 199]);
        assert_eq!(s.next_wrapping(200), Some(0));
    }
}
