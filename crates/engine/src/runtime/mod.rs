//! Work that nobody waits for: writing back, committing, cleaning while idle. A plain step, and a thread that takes it.
//!
//! Pacing is simpler than F2FS's: one step per `commit_interval` writes everything out and commits it, so nothing stays
//! unwritten for longer than two intervals. With a journal the steps come every second and commit what there is; data is
//! written every `commit_interval` by a thread of its own, so that no commit waits for it. If no operation came since the step before, and most of the unused space is
//! scattered over used sections, one section is cleaned; `gc=urgent` cleans more, idle or not (`gc::mode`). What has to be written back earlier is up to `writeback`.
mod background;
mod precedence;
mod signal;

pub use background::Background;
pub(crate) use precedence::Precedence;
pub(crate) use signal::Signal;

use crate::checkpoint::Reason;
use crate::error::Result;
use crate::gc::Mode;
use crate::journal::Log;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::volume::Volume;
use crate::writeback::IDLE;
use segno_format::BLOCKS_PER_SEG;

/// Cleaning while idle is worth it while less than this part of the unused space is in free segments, as in F2FS.
const FREE_PERCENT: u64 = 40;

/// Tells whether the volume is idle.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    changes: AtomicU64,
    at_last_step: AtomicU64,
}

impl Activity {
    /// An operation that changes something begins.
    pub fn note(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
    /// Whether none began since the last step.
    pub fn is_idle(&self) -> bool {
        self.changes.load(Ordering::Relaxed) == self.at_last_step.load(Ordering::Relaxed)
    }
    /// Whether none began since this was asked last.
    fn was_idle(&self) -> bool {
        let now = self.changes.load(Ordering::Relaxed);
        self.at_last_step.swap(now, Ordering::Relaxed) == now
    }
}

impl Volume {
    /// One background step: metadata and, without a journal, dirty data are committed; while idle a section may be cleaned.
    pub fn tick(&self) -> Result<()> {
        self.check_writable()?;
        let idle = self.activity.was_idle();
        // A file that cannot be written does not keep the others from being committed.
        let flushed = if self.log().is_some() { Ok(()) } else { self.flush_all_data() };
        self.end_idle_streams(IDLE);
        self.adjust_contexts();
        self.commit()?;
        if self.log().is_some_and(Log::is_checkpoint_due) {
            self.checkpoint(Reason::Sync)?;
        }
        match self.gc_mode() {
            Mode::Normal if idle && self.is_scattered() && self.clean_once()? => {
                self.checkpoint(Reason::Sync)?;
            }
            Mode::Urgent => {
                self.clean_now()?;
            }
            _ => {}
        }
        self.discard_in_step(idle);
        flushed
    }

    /// The other half of a step with a journal: data that is dirty is written. The next step commits it.
    pub fn write_aged(&self) -> Result<()> {
        self.check_writable()?;
        if self.log().is_some() { self.flush_aged_data() } else { Ok(()) }
    }

    /// Whether most of what users could still write to is holes in used sections.
    fn is_scattered(&self) -> bool {
        let unused = self.counts.user_blocks.saturating_sub(self.counts.values().valid_blocks);
        let overprovision = u64::from(self.segs.overprov_sections) * u64::from(self.geo.segs_per_sec);
        let free = self.segs.with_table(|t| t.free_segments()).saturating_sub(overprovision);
        free * u64::from(BLOCKS_PER_SEG) * 100 < unused * FREE_PERCENT
    }
}
