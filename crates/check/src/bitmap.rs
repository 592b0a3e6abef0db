//! A set of numbers below a limit. Untouched parts cost no memory: the system hands out zeroed pages on first use.

pub(crate) struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// A set for numbers below `len`.
    pub(crate) fn new(len: u64) -> Self {
        let words = usize::try_from(len.div_ceil(64)).unwrap_or(usize::MAX);
        Self { words: vec![0; words] }
    }

    /// Adds a number; whether it was new. A number past the limit is never new.
    pub(crate) fn insert(&mut self, i: u64) -> bool {
        let Some(word) = self.words.get_mut((i / 64) as usize) else { return false };
        let mask = 1 << (i % 64);
        let new = *word & mask == 0;
        *word |= mask;
        new
    }

    /// Its numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let words = (0u64..).zip(&self.words).filter(|(_, word)| **word != 0);
        words.flat_map(|(w, word)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| w * 64 + bit)
        })
    }

    /// Whether the set has the number.
    pub(crate) fn contains(&self, i: u64) -> bool {
        self.words.get((i / 64) as usize).is_some_and(|w| w & (1 << (i % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_tells_new_from_known() {
        let mut b = Bitmap::new(70);
        assert!(b.insert(69) && !b.insert(69) && b.contains(69));
        assert!(!b.contains(68) && !b.contains(1000) && !b.insert(1000));
    }

    #[test]
    fn numbers_come_in_order() {
        let mut b = Bitmap::new(300);
        let numbers = [0, 63, 64, 128, 299];
        numbers.iter().rev().for_each(|&n| assert!(b.insert(n)));
        assert!(b.iter().eq(numbers));
    }
}
