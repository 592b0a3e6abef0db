//! FITRIM: discards all free segments of a range.
use crate::commit::AT_A_TIME;
use crate::commit::CheckpointReason;
use crate::error::{Error, Result};
use crate::gc::Gc;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, SegNo};

/// Byte range to trim, and the shortest run of free bytes that is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimRange {
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Shortest free range that is discarded.
    pub min_len: u64,
}

impl Gc {
    /// Discards free segments that lie wholly in the range, and returns their bytes. Writes a checkpoint first, which
    /// makes freed blocks available. Stops early if the logs may soon need the space.
    pub fn trim(&self, range: TrimRange) -> Result<u64> {
        self.base.health.check_writable()?;
        if self.base.dev.is_zoned() {
            return Err(Error::NotSupported("zones are reset instead of discarded"));
        }
        if range.len < BLOCK_SIZE as u64 || range.start >= self.base.geo.block_count * BLOCK_SIZE as u64 {
            return Err(Error::Invalid("the range has no block of the volume"));
        }
        self.commit.checkpoint(CheckpointReason::Sync)?;
        let seg_bytes = u64::from(BLOCKS_PER_SEG) * BLOCK_SIZE as u64;
        let mut trimmed = 0;
        for run in self.free_runs(range).iter().filter(|run| run.len() as u64 * seg_bytes >= range.min_len) {
            for part in run.chunks(AT_A_TIME) {
                if self.files.room.is_spent() {
                    return Ok(trimmed);
                }
                trimmed += self.commit.discard_free(part) * seg_bytes;
            }
        }
        Ok(trimmed)
    }

    /// Contiguous runs of free segments in the range.
    fn free_runs(&self, range: TrimRange) -> Vec<Vec<SegNo>> {
        let end = range.start.saturating_add(range.len);
        let inside = |seg: &SegNo| {
            let first = u64::from(self.base.geo.seg_start(*seg).0);
            let (from, to) = (first, first + u64::from(BLOCKS_PER_SEG));
            from * BLOCK_SIZE as u64 >= range.start && to * BLOCK_SIZE as u64 <= end
        };
        let all = self.base.geo.segments().filter(inside);
        let free: Vec<SegNo> = self.nodes.space.with_table(|t| all.filter(|&s| t.is_free(s)).collect());
        free.chunk_by(|a, b| a.0.checked_add(1) == Some(b.0)).map(<[SegNo]>::to_vec).collect()
    }
}
