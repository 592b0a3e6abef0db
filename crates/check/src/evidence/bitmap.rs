//! A set of numbers below a limit. Untouched parts cost no memory.

/// Words of a page, which is allocated on first use: 512 bytes.
const PAGE: usize = 64;
/// Numbers in a page.
const NUMBERS: u64 = 64 * PAGE as u64;

pub(crate) struct Bitmap {
    len: u64,
    pages: Vec<Option<Box<[u64; PAGE]>>>,
}

impl Bitmap {
    /// A set for numbers below `len`.
    pub(crate) fn new(len: u64) -> Self {
        let count = usize::try_from(len.div_ceil(NUMBERS)).unwrap_or(usize::MAX);
        let mut pages = Vec::new();
        pages.resize_with(count, || None);
        Self { len, pages }
    }

    /// Adds a number; whether it was new. A number past the limit is never new.
    pub(crate) fn insert(&mut self, i: u64) -> bool {
        let Some(page) = self.pages.get_mut((i / NUMBERS) as usize).filter(|_| i < self.len) else {
            return false;
        };
        let page = page.get_or_insert_with(|| Box::new([0; PAGE]));
        let Some(word) = page.get_mut((i % NUMBERS / 64) as usize) else { return false };
        let mask = 1 << (i % 64);
        let new = *word & mask == 0;
        *word |= mask;
        new
    }

    /// Its numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let pages = (0u64..).zip(&self.pages).filter_map(|(n, page)| Some((n, page.as_deref()?)));
        let words = pages.flat_map(|(n, page)| (n * PAGE as u64..).zip(page)).filter(|(_, word)| **word != 0);
        words.flat_map(|(w, word)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| w * 64 + bit)
        })
    }

    /// Whether the set has the number.
    pub(crate) fn contains(&self, i: u64) -> bool {
        let page = self.pages.get((i / NUMBERS) as usize).and_then(Option::as_deref);
        let word = page.and_then(|page| page.get((i % NUMBERS / 64) as usize));
        word.is_some_and(|w| w & (1 << (i % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_tells_new_from_known() {
        let mut b = Bitmap::new(70);
        assert!(b.insert(69) && !b.insert(69) && b.contains(69));
        assert!(!b.contains(68) && !b.contains(1000) && !b.insert(1000) && !b.insert(70));
    }

    #[test]
    fn numbers_come_in_order() {
        let mut b = Bitmap::new(20_000);
        let numbers = [0, 63, 64, 128, 299, 4095, 4096, 12_288, 19_999];
        numbers.iter().rev().for_each(|&n| assert!(b.insert(n)));
        assert!(b.iter().eq(numbers));
        assert_eq!(b.pages.iter().flatten().count(), 4, "pages without a number were allocated");
    }
}
