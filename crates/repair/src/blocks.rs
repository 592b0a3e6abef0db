//! Sets of blocks of the main area: a bit for each.
use segno_format::{BLOCKS_PER_SEG, BlockAddr, Geometry, SegNo};

#[derive(Clone)]
pub(crate) struct BlockSet {
    geo: Geometry,
    words: Vec<u64>,
    count: u64,
}

impl BlockSet {
    pub(crate) fn new(geo: &Geometry) -> Self {
        let words = usize::try_from(geo.main_blocks().div_ceil(64)).unwrap_or(usize::MAX);
        Self { geo: *geo, words: vec![0; words], count: 0 }
    }

    /// Adds a block; whether it is in the main area and was not in the set.
    pub(crate) fn insert(&mut self, addr: BlockAddr) -> bool {
        let Some((word, mask)) = self.place(addr) else { return false };
        let Some(word) = self.words.get_mut(word) else { return false };
        let new = *word & mask == 0;
        *word |= mask;
        self.count += u64::from(new);
        new
    }

    pub(crate) fn contains(&self, addr: BlockAddr) -> bool {
        self.place(addr).is_some_and(|(word, mask)| self.words.get(word).is_some_and(|w| w & mask != 0))
    }

    /// Number of blocks.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// Blocks of a segment that are in the set, as offsets.
    pub(crate) fn of_segment(&self, seg: SegNo) -> impl Iterator<Item = u32> + '_ {
        let start = self.geo.seg_start(seg);
        (0..BLOCKS_PER_SEG).filter(move |&off| self.contains(start.offset(off)))
    }

    /// Whether no block of a segment is in the set.
    pub(crate) fn is_empty_in(&self, seg: SegNo) -> bool {
        let words = BLOCKS_PER_SEG as usize / 64;
        let first = seg.idx() * words;
        self.words.get(first..first + words).unwrap_or_default().iter().all(|w| *w == 0)
    }

    fn place(&self, addr: BlockAddr) -> Option<(usize, u64)> {
        let i = self.geo.in_main(addr).then(|| addr.0 - self.geo.main_blkaddr)?;
        Some((i as usize / 64, 1 << (i % 64)))
    }
}
