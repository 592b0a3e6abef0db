//! Random numbers that are the same for the same seed.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of one thread.
    pub fn new(seed: u64, thread: usize) -> Self {
        Self(seed ^ (thread as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.number() % n.max(1)
    }

    /// Between half and one and a half of a mean.
    pub fn around(&mut self, mean: u64) -> u64 {
        mean / 2 + self.below(mean.max(1)) + 1
    }
}
