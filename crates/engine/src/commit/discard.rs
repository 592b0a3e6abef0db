//! Discards of free segments.
use crate::commit::Commit;
use crate::health::invariant;
use crate::space::SegmentPin;
use crate::stat;
use crate::sync::Mutex;
use segno_format::{BLOCKS_PER_SEG, SegNo};
use std::collections::BTreeSet;

/// Segments per discard, and so the number that logs cannot open meanwhile.
pub const AT_A_TIME: usize = 8;

/// Free segments not yet discarded. A device may do nothing else during a discard (writes to an image file block
/// while a hole is punched), so with a background thread most discards wait until the volume is idle; otherwise each
/// step discards a few. A segment that is reused first needs no discard.
#[derive(Debug, Default)]
pub struct Undiscarded(Mutex<BTreeSet<SegNo>>);

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

impl Commit {
    /// Releases segments that a durable checkpoint has freed, and queues them for discard. Discards are best effort:
    /// the device may ignore or fail them.
    pub fn discard_segments(&self, freed: SegmentPin) {
        if self.base.dev.is_zoned() {
            // A zone whose reset failed is reset when a log enters it.
            if let Ok(resets) = self.nodes.space.reset_freed(freed.segments()) {
                stat::add(&self.base.stats.discards, resets);
            }
            return;
        }
        let segs = freed.segments().to_vec();
        drop(freed);
        if self.base.opts.discard {
            self.undiscarded.add(&segs);
            if !self.writeback.threads.are_used() {
                self.discard_while(|| true);
            }
        }
    }

    /// Discards of one background step.
    pub fn discard_in_step(&self, idle: bool) {
        let mut first = true;
        self.discard_while(|| std::mem::take(&mut first) || (idle && self.activity.is_idle()));
    }

    /// Discards free segments in parts; stops while logs may soon need them.
    pub fn discard_while(&self, mut more: impl FnMut() -> bool) {
        while !self.is_spent() && more() {
            let part = self.undiscarded.take(AT_A_TIME);
            if part.is_empty() {
                return;
            }
            self.discard_free(&part);
        }
    }

    /// Discards the segments that are still free. Returns how many the device accepted.
    pub fn discard_free(&self, segs: &[SegNo]) -> u64 {
        let free = self.nodes.space.pin_free(segs);
        let runs = free.segments().chunk_by(|a, b| a.0.checked_add(1) == Some(b.0));
        runs.filter(|run| self.discard_run(run)).map(|run| run.len() as u64).sum()
    }

    /// Whether the logs may soon need every free section.
    pub fn is_spent(&self) -> bool {
        self.nodes.needs_every_section()
    }

    /// Returns whether the device accepted the discard.
    fn discard_run(&self, run: &[SegNo]) -> bool {
        let Some(&first) = run.first() else { return false };
        let empty = self.nodes.space.with_table(|t| run.iter().all(|&seg| t.valid_in_segment(seg) == 0));
        invariant!(self.base.health, empty, "a discarded segment has valid blocks", else return false);
        let blocks = (run.len() as u32).saturating_mul(BLOCKS_PER_SEG);
        let taken = self.base.dev.discard(self.base.geo.seg_start(first), blocks).is_ok();
        if taken {
            stat::add(&self.base.stats.discards, run.len() as u64);
        }
        taken
    }
}
