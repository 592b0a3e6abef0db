//! The seeded random generator of tests, experiments and models (SplitMix64): a run is a function of its seed.

/// Each method draws one number, so a sequence of calls always consumes the same part of the generator's sequence.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of several generators with the same seed.
    #[must_use]
    pub const fn for_thread(seed: u64, thread: usize) -> Self {
        Self(seed ^ (thread as u64 + 1).wrapping_mul(0xD134_2543_DE82_EF95))
    }

    /// All 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `bound`, or 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw().checked_rem(bound).unwrap_or(0)
    }

    /// A number below `bound` from the high bits. Published figures of the cleaning model depend on this sequence.
    pub fn scaled(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 up to, and without, 1.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// An index into something of this length, or 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A value for a field of 1 to 64 bits: a limit, a neighbour of the old value, one with a bit changed, or any.
    pub fn field(&mut self, old: u64, bits: u32) -> u64 {
        let mask = u64::MAX >> (64 - bits);
        let new = match self.below(12) {
            0 => 0,
            1 => 1,
            2 => mask,
            3 => mask >> 1,
            4 => (mask >> 1) + 1,
            5 => old.wrapping_add(1),
            6 => old.wrapping_sub(1),
            7 | 8 => old ^ 1 << self.below(bits.into()),
            9 => old << 1,
            10 => 1 << self.below(bits.into()),
            _ => self.draw(),
        };
        new & mask
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// True with a probability of `percent` percent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of some values, if there is any.
    pub fn choose<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let index = self.index(from.len());
        from.get(index)
    }

    /// A copy of one of some values; the default if there are no values.
    pub fn pick<T: Copy + Default>(&mut self, from: &[T]) -> T {
        self.choose(from).copied().unwrap_or_default()
    }
}

/// Spreads a number over all 64 bits.
#[must_use]
pub const fn mix(n: u64) -> u64 {
    let z = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let mut rng = Rng::new(1_234_567);
        let drawn = [rng.draw(), rng.draw(), rng.draw()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert!((0..1000).all(|_| rng.below(7) < 7 && rng.scaled(7) < 7 && rng.unit() < 1.0));
        assert_eq!((rng.below(0), rng.pick::<u8>(&[]), rng.choose::<u8>(&[])), (0, 0, None));
    }
}
