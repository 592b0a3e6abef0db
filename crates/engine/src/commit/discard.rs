//! Discards of free segments.
use crate::commit::Commit;
use crate::health::invariant;
use crate::options::Discard;
use crate::space::{FIRST_SECOND, SegmentPin, Table};
use crate::stat;
use crate::sync::Mutex;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, BlockAddr, SegNo};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Segments per discard, and thus the number of segments that logs cannot open meanwhile.
pub const AT_A_TIME: usize = 8;

/// How long an unmount discards, as in Linux by default (`umount_discard_timeout`).
const UNMOUNT_TIME: Duration = Duration::from_secs(5);

/// Entries of the queue that are always kept.
const SMALL: usize = 1024;

const SEGMENT_BYTES: u64 = BLOCKS_PER_SEG as u64 * BLOCK_SIZE as u64;

/// Free segments not yet discarded, oldest first. A device may do nothing else during a discard (writes to an image file block
/// while a hole is punched), so with a background thread most discards wait until the volume is idle; otherwise each
/// step discards a few. A segment that is reused first needs no discard.
#[derive(Debug, Default)]
pub struct Undiscarded(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    freed: VecDeque<Freed>,
    /// Length of `freed` after entries of reused segments were last removed.
    current: usize,
}

/// A segment and the time at which it became empty. If it was used since, its time in the segment table is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Freed {
    at: u64,
    seg: SegNo,
}

impl Freed {
    fn is_current(self, table: &Table) -> bool {
        table.emptied_at(self.seg) == Some(self.at)
    }
}

impl Undiscarded {
    pub fn count(&self) -> u64 {
        self.0.lock().freed.len() as u64
    }
}

impl Queue {
    fn add(&mut self, table: &Table, segs: Vec<SegNo>) {
        self.freed.extend(segs.into_iter().filter_map(|seg| Some(Freed { at: table.emptied_at(seg)?, seg })));
        // Bounds the memory where segments are reused before they are due.
        if self.freed.len() / 2 > self.current.max(SMALL) {
            self.remove_reused(table);
        }
    }

    fn remove_reused(&mut self, table: &Table) {
        self.freed.retain(|freed| freed.is_current(table));
        self.current = self.freed.len();
    }

    /// Takes segments that are due. Empty if no more are due.
    fn take(&mut self, rule: Discard, now: u64, table: &Table) -> Vec<SegNo> {
        let mut out = Vec::new();
        while out.is_empty() {
            let due = match rule {
                Discard::Auto | Discard::Never => 0,
                Discard::AfterSeconds(age) => {
                    self.freed.iter().take_while(|f| f.at.saturating_add(age) <= now).take(AT_A_TIME).count()
                }
                Discard::AfterBytes(bytes) => self.beyond(bytes, table).min(AT_A_TIME),
            };
            if due == 0 {
                break;
            }
            out.extend(self.freed.drain(..due).filter(|f| f.is_current(table)).map(|f| f.seg));
        }
        out
    }

    /// Number of the oldest entries that precede the newest `bytes`.
    fn beyond(&mut self, bytes: u64, table: &Table) -> usize {
        let kept = usize::try_from(bytes.div_ceil(SEGMENT_BYTES)).unwrap_or(usize::MAX);
        if self.freed.len() > kept {
            self.remove_reused(table);
        }
        self.freed.len().saturating_sub(kept)
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
        self.queue_discards(|_| segs);
        if !self.writeback.threads.are_used() {
            self.discard_while(|| true);
        }
    }

    /// Queues segments that earlier mounts freed and did not discard. Called once recovery is complete: then
    /// no free segment is needed by the state before the crash.
    pub fn queue_earlier_discards(&self) {
        if self.base.opts.read_only || self.base.dev.is_zoned() {
            return;
        }
        let count = self.base.geo.segment_count_main;
        self.queue_discards(|table| {
            let emptied = |seg| Some((table.emptied_at(seg)?, seg));
            let mut all: Vec<_> = (0..count).map(SegNo).filter_map(emptied).collect();
            all.sort_unstable();
            all.into_iter().map(|(_, seg)| seg).collect()
        });
    }

    /// Queues the segments that `find` returns, oldest first. `find` is not called if the rule discards
    /// nothing.
    pub fn queue_discards(&self, find: impl FnOnce(&Table) -> Vec<SegNo>) {
        if self.base.opts.discard != Discard::Never {
            self.nodes.space.with_table(|t| self.undiscarded.0.lock().add(t, find(t)));
        }
    }

    /// Discards of one background step.
    pub fn discard_in_step(&self, idle: bool) {
        let mut first = true;
        self.discard_while(|| std::mem::take(&mut first) || (idle && self.activity.is_idle()));
    }

    /// Discards free segments that are due, in parts; stops while logs may soon need them.
    pub fn discard_while(&self, mut more: impl FnMut() -> bool) {
        let (rule, now) = (self.base.opts.discard, self.nodes.space.now().max(FIRST_SECOND));
        while !self.files.room.is_spent() && more() {
            let part = self.nodes.space.with_table(|t| self.undiscarded.0.lock().take(rule, now, t));
            if part.is_empty() {
                return;
            }
            self.discard_free(&part);
        }
    }

    /// Discards every block that the last checkpoint of a mount does not use; that checkpoint is durable.
    /// Returns whether all were discarded. Does nothing if a rule keeps deleted data, or if there is a
    /// journal.
    pub fn discard_rest(&self) -> bool {
        if self.base.opts.discard != Discard::NOW || self.base.dev.is_zoned() || self.journal().is_some() {
            return false;
        }
        let (begun, mut run) = (Instant::now(), 0..0);
        for seg in self.base.geo.segments() {
            let start = self.base.geo.seg_start(seg).0;
            let unused = self.nodes.space.with_table(|t| t.undiscarded(seg, self.was_trimmed));
            for Range { start: from, end } in unused {
                let next = start.saturating_add(from)..start.saturating_add(end);
                if next.start == run.end {
                    run.end = next.end;
                } else if begun.elapsed() > UNMOUNT_TIME || !self.discard_blocks(&run) {
                    return false;
                } else {
                    run = next;
                }
            }
        }
        self.discard_blocks(&run)
    }

    fn discard_blocks(&self, run: &Range<u32>) -> bool {
        run.is_empty() || self.base.dev.discard(BlockAddr(run.start), run.len() as u32).is_ok()
    }

    /// Discards the segments that are still free. Returns how many the device accepted.
    pub fn discard_free(&self, segs: &[SegNo]) -> u64 {
        let free = self.nodes.space.pin_free(segs);
        let runs = free.segments().chunk_by(|a, b| a.0.checked_add(1) == Some(b.0));
        runs.filter(|run| self.discard_run(run)).map(|run| run.len() as u64).sum()
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
            // Stored when the SIT block is next written; until then a mount discards the segment again.
            self.nodes.space.with_table(|t| run.iter().for_each(|&seg| t.note_discarded(seg)));
        }
        taken
    }
}
