//! A table by number. Parts that are empty take no memory.

/// Entries of a page.
const PAGE: usize = 256;

/// A table of entries that are all the same at first. A page is allocated with the first change of one of its
/// entries, so memory follows what is used of a volume, not its size. A look-up takes constant time.
#[derive(Clone, Debug)]
pub struct Paged<T> {
    pages: Vec<Option<Box<[T]>>>,
    len: usize,
    empty: T,
}

impl<T: Clone> Paged<T> {
    /// A table of `len` entries.
    #[must_use]
    pub fn new(len: usize, empty: T) -> Self {
        let mut pages = Vec::new();
        pages.resize_with(len.div_ceil(PAGE), || None);
        Self { pages, len, empty }
    }
    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// An entry; none beyond the end.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&T> {
        match self.pages.get(at / PAGE)? {
            _ if at >= self.len => None,
            Some(page) => page.get(at % PAGE),
            None => Some(&self.empty),
        }
    }
    /// An entry that will change. Use [`Paged::get`] to find out whether it has to.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        if at >= self.len {
            return None;
        }
        let page = self.pages.get_mut(at / PAGE)?;
        page.get_or_insert_with(|| vec![self.empty.clone(); PAGE].into()).get_mut(at % PAGE)
    }
    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).filter_map(|at| self.get(at))
    }
    /// Pages that are allocated.
    #[cfg(test)]
    pub(crate) fn allocated(&self) -> usize {
        self.pages.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_the_empty_one_until_they_are_set() {
        let mut table = Paged::new(1000, 7u32);
        assert_eq!((table.get(999), table.get(1000), table.len()), (Some(&7), None, 1000));
        assert_eq!(table.allocated(), 0);
        *table.get_mut(999).unwrap() = 1;
        *table.get_mut(300).unwrap() = 2;
        assert!(table.get_mut(1000).is_none() && table.get_mut(usize::MAX).is_none());
        assert_eq!(
            (table.get(999), table.get(300), table.get(998), table.get(0)),
            (Some(&1), Some(&2), Some(&7), Some(&7))
        );
        assert_eq!(table.allocated(), 2);
        let other: Vec<(usize, u32)> = (0..).zip(table.iter().copied()).filter(|&(_, v)| v != 7).collect();
        assert_eq!((other, table.iter().count()), (vec![(300, 2), (999, 1)], 1000));
    }
}
