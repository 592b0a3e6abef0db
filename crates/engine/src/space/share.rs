//! Data logs share their sections while the free ones may be needed for nodes (`segno_clean::need`).
use super::Space;
use super::ages::{data_log, log_type};
use super::log::{LockedLog, Log};
use crate::lock::{MutexGuard, rank};
use crate::sync::atomic::Ordering;
use segno_clean::lifetime::DataLog;
use segno_format::sit::LogType;

/// Held by a data log that may open a section, until it has opened one.
pub(super) type Opening<'a> = MutexGuard<'a, (), { rank::SIT }>;

impl Space {
    /// Makes data logs leave `sections` free sections to the nodes as long as any data log has room.
    pub fn leave_to_nodes(&self, sections: u64) {
        self.shared_up_to.store(sections + 1, Ordering::Relaxed);
    }

    /// How many of `wanted` blocks a locked log takes, and its turn if it opens a section for them. A log
    /// that may not open a section keeps one block, as the format requires a position in each log.
    pub(super) fn may_take(&self, log: &Log, wanted: usize) -> (usize, Option<Opening<'_>>) {
        let left = log.left(self.geo.segs_per_sec) as usize;
        // If space is counted in sections, logs never share, and opening a section may take a read.
        let shares = self.shared_up_to.load(Ordering::Relaxed) > 0;
        if log.kind.is_node() || left > wanted || !shares {
            return (wanted, None);
        }
        let turn = self.opening.lock();
        if self.leaves_to_nodes() && self.log_with_room(log.kind).is_some() {
            (left.saturating_sub(1), None)
        } else {
            (wanted, Some(turn))
        }
    }

    /// Whether nodes may need every free section.
    pub(super) fn leaves_to_nodes(&self) -> bool {
        self.free_sections() < self.shared_up_to.load(Ordering::Relaxed)
    }

    /// The data log to write to instead of one that may open no section.
    fn log_with_room(&self, kind: LogType) -> Option<LogType> {
        let room =
            DataLog::ALL.map(|log| u64::from(self.logs[log_type(log).idx()].place().1.saturating_sub(1)));
        data_log(kind)?.shared(room).map(log_type)
    }

    /// Locks the data log that continues for a full one, or that one again if none has room.
    pub(super) fn lock_shared(&self, kind: LogType) -> LockedLog<'_> {
        self.logs[self.log_with_room(kind).unwrap_or(kind).idx()].lock()
    }
}
