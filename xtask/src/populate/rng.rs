//! Seeded random numbers: the same seed gives the same tree, whatever machine and release.

/// SplitMix64.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `end`, 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        let index = self.index(list.len());
        list.get(index)
    }

    /// Bytes to fill a file with: noise, text that compresses, or a mixture with zeros.
    pub fn bytes(&mut self, length: u64) -> Vec<u8> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let style = self.below(3);
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            let word = self.next();
            match style {
                0 => bytes.extend_from_slice(&word.to_le_bytes()),
                1 => bytes.extend_from_slice(format!("line {} ", word % 100).as_bytes()),
                _ => bytes.resize(bytes.len() + 1 + (word % 512) as usize, (word >> 32) as u8 & 1),
            }
        }
        bytes.truncate(length);
        bytes
    }
}
