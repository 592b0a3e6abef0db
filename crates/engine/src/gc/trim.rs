//! Telling the device of everything that is free because somebody asks for it (FITRIM).
use super::discard::AT_A_TIME;
use crate::checkpoint::Reason;
use crate::error::{Error, Result};
use crate::volume::Volume;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, SegNo};

/// Bytes of the device that are looked at, and how many free ones in a row are worth a discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimRange {
    pub start: u64,
    pub len: u64,
    pub min_len: u64,
}

impl Volume {
    /// Discards free segments that lie wholly in the range, and returns how many bytes that were. Blocks that were freed
    /// count once a checkpoint knows it, so one is written first. Stops early when the logs are about to need the space.
    pub fn trim(&self, range: TrimRange) -> Result<u64> {
        self.check_writable()?;
        if self.dev.is_zoned() {
            return Err(Error::NotSupported("zones are reset instead of discarded"));
        }
        if range.len < BLOCK_SIZE as u64 || range.start >= self.geo.block_count * BLOCK_SIZE as u64 {
            return Err(Error::Invalid("the range has no block of the volume"));
        }
        self.checkpoint(Reason::Sync)?;
        let seg_bytes = u64::from(BLOCKS_PER_SEG) * BLOCK_SIZE as u64;
        let mut trimmed = 0;
        for run in self.free_runs(range).iter().filter(|run| run.len() as u64 * seg_bytes >= range.min_len) {
            for part in run.chunks(AT_A_TIME) {
                if self.is_spent() {
                    return Ok(trimmed);
                }
                trimmed += self.discard_free(part) * seg_bytes;
            }
        }
        Ok(trimmed)
    }

    /// Free segments in the range, in rows without a gap.
    fn free_runs(&self, range: TrimRange) -> Vec<Vec<SegNo>> {
        let end = range.start.saturating_add(range.len);
        let inside = |seg: &SegNo| {
            let first = u64::from(self.geo.seg_start(*seg).0);
            let (from, to) = (first, first + u64::from(BLOCKS_PER_SEG));
            from * BLOCK_SIZE as u64 >= range.start && to * BLOCK_SIZE as u64 <= end
        };
        let all = (0..self.geo.segment_count_main).map(SegNo).filter(inside);
        let free: Vec<SegNo> = self.segs.with_table(|t| all.filter(|&s| t.is_free(s)).collect());
        free.chunk_by(|a, b| a.0.checked_add(1) == Some(b.0)).map(<[SegNo]>::to_vec).collect()
    }
}
