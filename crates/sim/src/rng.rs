//! A small seeded generator (SplitMix64), so that a run is a function of its seed.

#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `bound`, or 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw().checked_rem(bound).unwrap_or(0)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A copy of one of some values.
    #[cfg(feature = "shuttle")]
    pub fn pick_of<T: Clone>(&mut self, from: &[T; 2]) -> T {
        let [a, b] = from;
        if self.one_in(2) { a.clone() } else { b.clone() }
    }

    /// One of some values; the default if there is none.
    pub fn pick<T: Copy + Default>(&mut self, from: &[T]) -> T {
        let i = self.below(from.len() as u64) as usize;
        from.get(i).copied().unwrap_or_default()
    }
}

/// Spreads a number over all 64 bits.
#[must_use]
pub fn mix(n: u64) -> u64 {
    let z = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
