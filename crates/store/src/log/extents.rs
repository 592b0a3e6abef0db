//! Location of the blocks of one zone.

/// Consecutive blocks of a zone that are consecutive in an object. Offsets count blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub start: u16,
    pub len: u16,
    /// Index of the object in the map's table.
    pub object: u32,
    pub offset: u16,
}

impl Extent {
    pub(crate) fn end(&self) -> u16 {
        self.start + self.len
    }

    /// The part inside a range.
    fn clip(&self, start: u16, end: u16) -> Option<Self> {
        let (from, to) = (self.start.max(start), self.end().min(end));
        (from < to).then(|| Self {
            start: from,
            len: to - from,
            object: self.object,
            offset: self.offset + (from - self.start),
        })
    }

    fn continues(&self, next: &Self) -> bool {
        self.object == next.object && self.end() == next.start && self.offset + self.len == next.offset
    }
}

/// The extents of a zone, in order and without overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents(Vec<Extent>);

impl Extents {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.0.iter()
    }

    /// Allocates memory for `count` more extents.
    pub(crate) fn reserve(&mut self, count: u16) {
        self.0.reserve_exact(count.into());
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The parts inside a range, in order.
    pub(crate) fn within(&self, start: u16, end: u16) -> impl Iterator<Item = Extent> + '_ {
        let first = self.0.partition_point(|e| e.end() <= start);
        self.0.iter().skip(first).map_while(move |e| e.clip(start, end))
    }

    /// Removes a range; returns the removed parts.
    pub(crate) fn remove(&mut self, start: u16, end: u16) -> Vec<Extent> {
        let removed: Vec<Extent> = self.within(start, end).collect();
        if removed.is_empty() {
            return removed;
        }
        let first = self.0.partition_point(|e| e.end() <= start);
        let last = self.0.partition_point(|e| e.start < end);
        let left = self.0.get(first).and_then(|e| e.clip(0, start));
        let right = last.checked_sub(1).and_then(|i| self.0.get(i)).and_then(|e| e.clip(end, u16::MAX));
        self.0.splice(first..last, left.into_iter().chain(right));
        removed
    }

    /// Inserts an extent over existing ones; returns the parts that it replaces.
    pub(crate) fn insert(&mut self, new: Extent) -> Vec<Extent> {
        let removed = self.remove(new.start, new.end());
        let at = self.0.partition_point(|e| e.start < new.start);
        match at.checked_sub(1).and_then(|i| self.0.get_mut(i)) {
            Some(before) if before.continues(&new) => before.len += new.len,
            _ => self.0.insert(at, new),
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_testkit::Rng;

    /// Random overwrites and removals against one cell per block.
    #[test]
    fn extents_follow_a_plain_array() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut extents, mut cells) = (Extents::default(), [None; 64]);
            for _ in 0..60 {
                let start = rng.below(64) as u16;
                let end = start + rng.between(1, u64::from(64 - start)) as u16;
                let old: Vec<_> = cells[start as usize..end as usize].to_vec();
                let removed = if rng.chance(30) {
                    cells[start as usize..end as usize].fill(None);
                    extents.remove(start, end)
                } else {
                    let (object, offset) = (rng.below(3) as u32, rng.below(20) as u16);
                    for (i, cell) in cells[start as usize..end as usize].iter_mut().enumerate() {
                        *cell = Some((object, offset + i as u16));
                    }
                    extents.insert(Extent { start, len: end - start, object, offset })
                };
                let flat = |of: &mut dyn Iterator<Item = Extent>| {
                    let mut all = [None; 64];
                    for e in of {
                        for i in 0..e.len {
                            assert!(all[(e.start + i) as usize].is_none(), "overlap, seed {seed}");
                            all[(e.start + i) as usize] = Some((e.object, e.offset + i));
                        }
                    }
                    all
                };
                assert_eq!(
                    flat(&mut removed.into_iter())[start as usize..end as usize],
                    old[..],
                    "seed {seed}"
                );
                assert_eq!(flat(&mut extents.iter().copied()), cells, "seed {seed}");
                assert!(extents.0.is_sorted_by_key(|e| e.start));
            }
        }
    }
}
