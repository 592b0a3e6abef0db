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

    /// Numbers of the set in words of 64, from word `first` on.
    pub(crate) fn counts(&self, first: usize) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().skip(first).map(|w| w.count_ones() as usize)
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
}
