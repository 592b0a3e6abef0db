//! Telling the device which segments hold nothing of value any more.
use crate::stat;
use crate::volume::Volume;
use segno_format::{BLOCKS_PER_SEG, SegNo};

/// Segments discarded at a time: the logs have to wait for no more than these.
const AT_A_TIME: usize = 64;

impl Volume {
    /// Discards segments that a durable checkpoint has freed and claimed, and lets the logs have them. Those that the
    /// logs are about to need are not discarded. The device may ignore a discard, or fail: nothing depends on it.
    pub(crate) fn discard_segments(&self, freed: &[SegNo]) {
        if self.dev.is_zoned() {
            // A zone that could not be reset is tried again when a log enters it.
            if let Ok(resets) = self.segs.reset_freed(freed) {
                stat::add(&self.stats.discards, resets);
            }
            return self.segs.unclaim(freed);
        }
        for part in freed.chunks(AT_A_TIME) {
            let need = self.need();
            let spent = self.segs.free_sections() <= need.dirty + need.kept;
            if self.opts.discard && !spent {
                part.chunk_by(|a, b| a.0.checked_add(1) == Some(b.0)).for_each(|run| self.discard_run(run));
            }
            self.segs.unclaim(part);
        }
    }

    fn discard_run(&self, run: &[SegNo]) {
        let Some(&first) = run.first() else { return };
        let blocks = (run.len() as u32).saturating_mul(BLOCKS_PER_SEG);
        if self.dev.discard(self.geo.seg_start(first), blocks).is_ok() {
            stat::add(&self.stats.discards, run.len() as u64);
        }
    }
}
