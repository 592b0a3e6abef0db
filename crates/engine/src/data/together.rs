//! Small files that were written together lie together, and whoever reads two of them often reads the rest. So a second
//! read in a region of the device brings all of it into the cache of the host, and regions that follow each other
//! bring the next ones along.
use segno_format::BlockAddr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Blocks of a region.
const REGION: u32 = 32;
/// Regions that come along where one followed the other.
const AHEAD: u32 = 4;
/// Regions that are remembered.
const SLOTS: usize = 16;

/// What was read lately; racing callers may spoil a note, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Together([AtomicU32; SLOTS]);

/// A note on a region.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Note(u32);

impl Note {
    /// There was one read.
    fn once(region: u32) -> Self {
        Self((region + 1) * 2)
    }
    /// All of it was asked for.
    fn asked(region: u32) -> Self {
        Self((region + 1) * 2 + 1)
    }
}

impl Together {
    /// A read of a small file at this address: blocks to ask for, their first and their number.
    pub fn wanted(&self, addr: BlockAddr) -> Option<(BlockAddr, u32)> {
        let region = addr.0 / REGION;
        if self.has(Note::asked(region)) {
            return None;
        }
        if !self.has(Note::once(region)) {
            self.note(Note::once(region));
            return None;
        }
        let follows = region.checked_sub(1).is_some_and(|before| self.has(Note::asked(before)));
        let regions = if follows { AHEAD } else { 1 };
        (region..region + regions).for_each(|r| self.note(Note::asked(r)));
        Some((BlockAddr(region * REGION), regions * REGION))
    }

    fn slot(&self, note: Note) -> Option<&AtomicU32> {
        self.0.get((note.0 >> 1) as usize % SLOTS)
    }

    fn has(&self, note: Note) -> bool {
        self.slot(note).is_some_and(|s| s.load(Ordering::Relaxed) == note.0)
    }

    fn note(&self, note: Note) {
        if let Some(slot) = self.slot(note) {
            slot.store(note.0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(t: &Together, addrs: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
        addrs.filter_map(|a| t.wanted(BlockAddr(a))).map(|(first, count)| (first.0, count)).collect()
    }

    #[test]
    fn a_second_read_nearby_brings_the_region_and_a_run_brings_more() {
        let t = Together::default();
        // The first two regions one by one, then four at a time, each block once.
        assert_eq!(asked(&t, 64..64 + 320), [(64, 32), (96, 128), (224, 128), (352, 128)]);
        let backwards = (1024..1024 + 64).rev();
        assert_eq!(asked(&t, backwards), [(1056, 32), (1024, 32)]);
    }

    #[test]
    fn scattered_reads_bring_nothing() {
        let t = Together::default();
        assert_eq!(asked(&t, (0..1000).map(|i| i * 7919)), []);
        assert_eq!(t.wanted(BlockAddr(u32::MAX)), None);
        assert_eq!(t.wanted(BlockAddr(u32::MAX)), Some((BlockAddr(u32::MAX - 31), 32)));
    }
}
