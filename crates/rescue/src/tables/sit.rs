//! The SIT as of a checkpoint.
use super::{Pack, Summaries};
use crate::Reader;
use segno_format::bits::msb;
use segno_format::geometry::SIT_PER_BLOCK;
use segno_format::sit::{RawSitBlock, RawSitEntry};
use segno_format::{BlockAddr, Geometry, SegNo};
use std::collections::HashMap;

/// The SIT. Blocks of zeros take no memory.
pub struct Sit {
    blocks: Vec<Option<Box<RawSitBlock>>>,
    lost: Vec<bool>,
    journal: HashMap<u32, RawSitEntry>,
}

impl Sit {
    /// Reads the copies that a pack selects.
    #[must_use]
    pub fn load(reader: &Reader<'_>, geo: &Geometry, pack: &Pack, summaries: &Summaries) -> Self {
        let journal = summaries.sit_journal().iter().map(|e| (e.segno.get(), e.entry)).collect();
        let (mut blocks, mut lost) = (Vec::new(), Vec::new());
        for b in 0..geo.sit_blocks().min(reader.end()) {
            let block = reader.block(geo.sit_addr(b, pack.sit_copy(b)));
            lost.push(block.is_none());
            blocks.push(block.filter(|b| !b.is_zero()).map(|b| Box::new(*b.view::<RawSitBlock>())));
        }
        Self { blocks, lost, journal }
    }

    /// Entry of a segment; `None` if it cannot be read.
    #[must_use]
    pub fn get(&self, seg: SegNo) -> Option<RawSitEntry> {
        if let Some(entry) = self.journal.get(&seg.0) {
            return Some(*entry);
        }
        let b = (seg.0 / SIT_PER_BLOCK) as usize;
        if *self.lost.get(b)? {
            return None;
        }
        match self.blocks.get(b)? {
            Some(block) => block.entries.get((seg.0 % SIT_PER_BLOCK) as usize).copied(),
            None => Some(zerocopy::FromZeros::new_zeroed()),
        }
    }

    /// Whether a block is valid; `None` if that cannot be known. An entry that contradicts itself says nothing.
    #[must_use]
    pub fn is_valid(&self, geo: &Geometry, addr: BlockAddr) -> Option<bool> {
        let (seg, off) = geo.seg_of(addr)?;
        let entry = self.get(seg).filter(|e| e.parse(seg).is_ok())?;
        Some(msb::test(&entry.valid_map, off as usize))
    }

    /// Whether an entry is in the journal.
    #[must_use]
    pub fn in_journal(&self, seg: SegNo) -> bool {
        self.journal.contains_key(&seg.0)
    }

    /// Whether it has no valid block at all, which no volume has.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.blocks.iter().all(Option::is_none) && self.journal.is_empty()
    }
}
