//! Read-ahead of small files. Small files written together are adjacent, and reading two of them is often followed by
//! reading the rest. So a second read in a region of the device brings the whole region into the host's page cache,
//! and consecutive regions bring the following ones as well.
use segno_format::BlockAddr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Blocks in a region.
const REGION: u32 = 32;
/// Regions read ahead when one followed another.
const REGIONS_AHEAD: u32 = 4;
/// Number of regions remembered.
const SLOTS: usize = 16;

/// Recently read regions. Races between callers may lose a note, which is harmless.
#[derive(Debug, Default)]
pub struct ReadaheadClusters([AtomicU32; SLOTS]);

/// State of a region.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Note(u32);

impl Note {
    /// One read happened in the region.
    fn once(region: u32) -> Self {
        Self((region + 1) * 2)
    }
    /// The whole region was requested.
    fn requested(region: u32) -> Self {
        Self((region + 1) * 2 + 1)
    }
}

impl ReadaheadClusters {
    /// Notes a read of a small file at this address. Returns the first block and the number of blocks to request.
    pub fn wanted(&self, addr: BlockAddr) -> Option<(BlockAddr, u32)> {
        let region = addr.0 / REGION;
        if self.has(Note::requested(region)) {
            return None;
        }
        if !self.has(Note::once(region)) {
            self.note(Note::once(region));
            return None;
        }
        let follows = region.checked_sub(1).is_some_and(|before| self.has(Note::requested(before)));
        let regions = if follows { REGIONS_AHEAD } else { 1 };
        (region..region + regions).for_each(|r| self.note(Note::requested(r)));
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

    fn requested(t: &ReadaheadClusters, addrs: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
        addrs.filter_map(|a| t.wanted(BlockAddr(a))).map(|(first, count)| (first.0, count)).collect()
    }

    #[test]
    fn a_second_read_requests_the_region_and_a_run_requests_more() {
        let t = ReadaheadClusters::default();
        // The first two regions separately, then four at a time, each block once.
        assert_eq!(requested(&t, 64..64 + 320), [(64, 32), (96, 128), (224, 128), (352, 128)]);
        let backwards = (1024..1024 + 64).rev();
        assert_eq!(requested(&t, backwards), [(1056, 32), (1024, 32)]);
    }

    #[test]
    fn scattered_reads_request_nothing() {
        let t = ReadaheadClusters::default();
        assert_eq!(requested(&t, (0..1000).map(|i| i * 7919)), []);
        assert_eq!(t.wanted(BlockAddr(u32::MAX)), None);
        assert_eq!(t.wanted(BlockAddr(u32::MAX)), Some((BlockAddr(u32::MAX - 31), 32)));
    }
}
