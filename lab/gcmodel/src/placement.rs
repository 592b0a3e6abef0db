//! Which log a data block goes to.
use crate::counters::Kind;
use crate::log::LogKind;
use crate::oracle::Future;
use crate::space::NONE;
use crate::volume::{Full, Model};

/// User blocks written back for each second of the SIT clock.
pub const PER_SECOND: u64 = 20_000;

/// How data blocks are separated.
#[derive(Clone, Debug, Default)]
pub enum Placement {
    /// User blocks are warm, moved blocks cold.
    #[default]
    TwoLogs,
    /// By the lifetime that the old copy suggests (`segno_clean::lifetime`).
    Lifetimes,
    /// As `TwoLogs`, while what is written is recorded.
    Recorded(Vec<u32>),
    /// By the time at which the block is overwritten or deleted.
    Oracle(Future),
}

/// Marks a deleted page in a record.
pub const TRIM: u32 = 1 << 31;

impl Model {
    /// Writes a page back.
    pub fn write_user(&mut self, page: u32) -> Result<(), Full> {
        self.user_written += 1;
        self.space.now = self.user_written / PER_SECOND;
        let old = self.place[page as usize];
        let log = match &mut self.placement {
            Placement::TwoLogs => LogKind::WarmData,
            Placement::Lifetimes => self.space.log_of_written((old != NONE).then_some(old)),
            Placement::Recorded(written) => {
                written.push(page);
                LogKind::WarmData
            }
            Placement::Oracle(future) => future.written(page),
        };
        self.write_data(page, log, Kind::UserData)
    }

    /// Notes that cleaning writes a page before it moves its block. Where the future is known, writeback must happen as it was
    /// recorded.
    pub fn absorb(&mut self, page: u32) {
        let known = matches!(self.placement, Placement::Recorded(_) | Placement::Oracle(_));
        if !known && self.dirty.remove(page) {
            self.counts.written_by_cleaning += 1;
        }
    }

    /// Moves a data block.
    pub fn move_data(&mut self, page: u32) -> Result<(), Full> {
        let log = match &self.placement {
            Placement::Oracle(future) => future.moved(page),
            _ => self.log_of_moved(self.place[page as usize]),
        };
        self.write_data(page, log, Kind::MovedData)
    }

    /// The log for a block that is moved from an address.
    pub fn log_of_moved(&self, from: u32) -> LogKind {
        match self.placement {
            Placement::Lifetimes => self.space.log_of_moved(from),
            _ => LogKind::ColdData,
        }
    }

    /// Invalidates a page of a deleted file.
    pub fn trim(&mut self, page: u32) {
        self.dirty.remove(page);
        let old = std::mem::replace(&mut self.place[page as usize], NONE);
        if old == NONE {
            return;
        }
        self.space.invalidate(old);
        match &mut self.placement {
            Placement::Recorded(written) => written.push(page | TRIM),
            Placement::Oracle(future) => future.trimmed(),
            Placement::TwoLogs | Placement::Lifetimes => {}
        }
    }
}
