//! Telling the device which segments hold nothing of value any more.
use crate::stat;
use crate::sync::Mutex;
use crate::volume::Volume;
use segno_format::{BLOCKS_PER_SEG, SegNo};
use std::collections::BTreeSet;

/// Segments discarded at a time: the logs have to wait for no more than these.
pub(super) const AT_A_TIME: usize = 8;

/// Free segments of which the device has not been told. While it discards it may do nothing else (nobody can write to an
/// image file while a hole is made in it), so with a background thread that waits until the volume is idle; while it
/// is not, each step discards a few. What is used again before needs no discard.
#[derive(Debug, Default)]
pub(crate) struct Undiscarded(Mutex<BTreeSet<SegNo>>);

impl Undiscarded {
    pub fn count(&self) -> u64 {
        self.0.lock().len() as u64
    }
    fn add(&self, freed: &[SegNo]) {
        self.0.lock().extend(freed);
    }
    fn take(&self, most: usize) -> Vec<SegNo> {
        let mut all = self.0.lock();
        std::iter::from_fn(|| all.pop_first()).take(most).collect()
    }
}

impl Volume {
    /// Lets the logs have segments that a durable checkpoint has freed and claimed, and sees to it that they are
    /// discarded. The device may ignore a discard, or fail: nothing depends on it.
    pub(crate) fn discard_segments(&self, freed: &[SegNo]) {
        if self.dev.is_zoned() {
            // A zone that could not be reset is tried again when a log enters it.
            if let Ok(resets) = self.segs.reset_freed(freed) {
                stat::add(&self.stats.discards, resets);
            }
            return self.segs.unclaim(freed);
        }
        self.segs.unclaim(freed);
        if self.opts.discard {
            self.undiscarded.add(freed);
            if !self.wb.threads.are_used() {
                self.discard_while(|| true);
            }
        }
    }

    /// What a background step discards.
    pub(crate) fn discard_in_step(&self, idle: bool) {
        let mut first = true;
        self.discard_while(|| std::mem::take(&mut first) || (idle && self.activity.is_idle()));
    }

    /// Discards what is still free, part by part; nothing while the logs are about to need it.
    pub(crate) fn discard_while(&self, mut more: impl FnMut() -> bool) {
        while !self.is_spent() && more() {
            let part = self.undiscarded.take(AT_A_TIME);
            if part.is_empty() {
                return;
            }
            self.discard_free(&part);
        }
    }

    /// Discards the segments that are still free, and returns how many the device accepted.
    pub(super) fn discard_free(&self, segs: &[SegNo]) -> u64 {
        let free = self.segs.claim_free(segs);
        let runs = free.chunk_by(|a, b| a.0.checked_add(1) == Some(b.0));
        let told = runs.filter(|run| self.discard_run(run)).map(|run| run.len() as u64).sum();
        self.segs.unclaim(&free);
        told
    }

    /// Whether the logs may soon need every free section.
    pub(super) fn is_spent(&self) -> bool {
        let need = self.demand().need(self.geo.blocks_per_sec().into());
        self.segs.free_sections() <= need.dirty + need.kept
    }

    /// Whether the device took it.
    fn discard_run(&self, run: &[SegNo]) -> bool {
        let Some(&first) = run.first() else { return false };
        let blocks = (run.len() as u32).saturating_mul(BLOCKS_PER_SEG);
        let taken = self.dev.discard(self.geo.seg_start(first), blocks).is_ok();
        if taken {
            stat::add(&self.stats.discards, run.len() as u64);
        }
        taken
    }
}
