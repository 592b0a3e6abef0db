//! Background work: writeback, commits, idle cleaning. A single step, and threads that repeat it.
//!
//! Pacing is simpler than F2FS's: one step per `commit_interval` flushes all data and commits, so nothing stays
//! volatile for longer than two intervals. With a journal, steps commit metadata every second; a separate thread
//! flushes data every `commit_interval`, so that no commit waits for it. After a step without operations, one section
//! is cleaned if most of the free space is scattered over used sections; `gc=urgent` cleans more, idle or not
//! (`gc::mode`). Earlier flushes under memory pressure are up to `writeback`.
mod threads;

pub use threads::Background;

use crate::commit::{CheckpointReason, MountedJournal};
use crate::error::Result;
use crate::files::IDLE;
use crate::gc::Mode;
use crate::volume::Volume;

impl Volume {
    /// One background step: commits metadata and, without a journal, dirty data; while idle it may clean a section.
    pub(super) fn tick(&self) -> Result<()> {
        self.base.health.check_writable()?;
        let idle = self.commit.activity.was_idle();
        // An unwritable file does not prevent the commit of the others.
        let flushed = if self.commit.journal().is_some() { Ok(()) } else { self.writeback.flush_all_data() };
        self.writeback.end_idle_streams(IDLE);
        self.writeback.adjust_contexts();
        self.commit.sync_metadata()?;
        if self.commit.journal().is_some_and(MountedJournal::is_checkpoint_due) {
            self.commit.checkpoint(CheckpointReason::Sync)?;
        }
        match self.gc.mode() {
            Mode::Normal if idle && self.gc.is_scattered() && self.gc.clean_once()? => {
                self.commit.checkpoint(CheckpointReason::Sync)?;
            }
            Mode::Urgent => {
                self.clean_now()?;
            }
            _ => {}
        }
        self.commit.discard_in_step(idle);
        flushed
    }

    /// With a journal, flushes the dirty data. The next step commits it.
    pub(super) fn write_aged(&self) -> Result<()> {
        self.base.health.check_writable()?;
        if self.commit.journal().is_some() { self.writeback.flush_aged_data() } else { Ok(()) }
    }
}
