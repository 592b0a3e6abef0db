//! The SIT as of a checkpoint.
use crate::reader::read_volume_block;
use crate::{Pack, Reader, Summaries};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use segno_format::bits::{msb, popcount};
use segno_format::sit::{LogType, RawSitEntry, sit_block_entries};
use segno_format::{BlockAddr, Geometry, SegNo};

/// The SIT. Blocks of zeros take no memory.
pub struct Sit {
    blocks: Vec<Option<Box<[RawSitEntry]>>>,
    per_block: u32,
    lost: Vec<bool>,
    journal: BTreeMap<SegNo, RawSitEntry>,
}

impl Sit {
    /// Reads the copies that a pack selects.
    pub fn load<R: Reader + ?Sized>(
        reader: &R,
        geo: &Geometry,
        pack: &Pack,
        summaries: &Summaries,
    ) -> Result<Self, R::Error> {
        // If a segment has two entries, the first counts, as in the check; a mount, like Linux, takes the
        // last.
        let journal = summaries.sit_journal().iter().rev().map(|e| (SegNo(e.segno.get()), e.entry)).collect();
        let (mut blocks, mut lost) = (Vec::new(), Vec::new());
        for b in 0..geo.sit_blocks().min(reader.end()) {
            let block = read_volume_block(reader, geo, geo.sit_addr(b, pack.sit_copy(b)))?;
            lost.push(block.is_none());
            blocks.push(block.filter(|b| !b.is_zero()).map(|b| sit_block_entries(b.as_ref()).into()));
        }
        Ok(Self { blocks, per_block: geo.sit_per_block(), lost, journal })
    }

    /// Entry of a segment; `None` if it cannot be read.
    #[must_use]
    pub fn get(&self, seg: SegNo) -> Option<RawSitEntry> {
        if let Some(entry) = self.journal.get(&seg) {
            return Some(*entry);
        }
        let b = (seg.0 / self.per_block) as usize;
        if *self.lost.get(b)? {
            return None;
        }
        match self.blocks.get(b)? {
            Some(block) => block.get((seg.0 % self.per_block) as usize).copied(),
            None => Some(zerocopy::FromZeros::new_zeroed()),
        }
    }

    /// Whether a block is valid; `None` if the entry of its segment cannot be read or contradicts itself.
    #[must_use]
    pub fn is_valid(&self, geo: &Geometry, addr: BlockAddr) -> Option<bool> {
        let (seg, off) = geo.seg_of(addr)?;
        let entry = self.get(seg).filter(|e| e.parse(seg).is_ok())?;
        Some(msb::test(&entry.valid_map, off as usize))
    }

    /// The log that wrote a segment; `None` if its entry cannot be read or contradicts itself.
    #[must_use]
    pub fn log(&self, seg: SegNo) -> Option<LogType> {
        self.get(seg)?.parse(seg).ok()
    }

    /// Whether a block is in the map of its segment, which may contradict the rest of the entry.
    #[must_use]
    pub fn has(&self, seg: SegNo, off: u32) -> bool {
        self.get(seg).is_some_and(|e| msb::test(&e.valid_map, off as usize))
    }

    /// Blocks in the map of a segment.
    #[must_use]
    pub fn count(&self, seg: SegNo) -> u16 {
        self.get(seg).map_or(0, |e| popcount(&e.valid_map) as u16)
    }

    /// Type of a segment, regardless of its map.
    #[must_use]
    pub fn stored_log(&self, seg: SegNo) -> Option<LogType> {
        self.get(seg).and_then(|e| u8::try_from(e.vblocks.get() >> 10).ok()).and_then(LogType::from_disk)
    }

    /// Whether an entry is in the journal.
    #[must_use]
    pub fn in_journal(&self, seg: SegNo) -> bool {
        self.journal.contains_key(&seg)
    }

    /// Whether its area is all zeros, and the journal does not account for the valid blocks of the
    /// checkpoint.
    #[must_use]
    pub fn is_lost(&self, valid_blocks: u64) -> bool {
        let journal: u64 = self.journal.values().map(|e| u64::from(e.valid())).sum();
        self.blocks.iter().all(Option::is_none) && (journal == 0 || journal < valid_blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Linux keeps the entries of a small volume in the pack alone.
    #[test]
    fn a_wiped_area_is_lost_unless_the_journal_has_all_valid_blocks() {
        let mut map = [0; 64];
        map[0] = 0b1110_0000;
        let journal = BTreeMap::from([(SegNo(7), RawSitEntry::new(LogType::HotNode, 3, &map, 0))]);
        let sit = Sit { blocks: vec![None, None], per_block: 55, lost: vec![false, false], journal };
        assert_eq!([2, 3, 4].map(|valid| sit.is_lost(valid)), [false, false, true]);
        let empty = Sit { journal: BTreeMap::new(), ..sit };
        assert!(empty.is_lost(0));
    }
}
