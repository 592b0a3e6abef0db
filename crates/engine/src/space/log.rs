//! An active log: the segment it writes, the next block, and the summary it fills.
use crate::lock::{Mutex, MutexGuard, rank};
use crate::sync::atomic::{AtomicU64, Ordering};
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock};
use segno_format::{BLOCKS_PER_SEG, BlockAddr, Geometry, SecNo, SegNo};
use std::ops::{Deref, DerefMut};

/// An active log, used under its lock.
#[derive(Clone)]
pub struct Log {
    pub kind: LogType,
    pub segno: SegNo,
    /// Offset of the next block; `BLOCKS_PER_SEG` while the segment is full and the next one is not open.
    pub next: u32,
    /// Whether it fills the holes of a used segment (SSR) instead of a free one.
    pub ssr: bool,
    pub summary: Box<RawSummaryBlock>,
    /// Number of fsyncs that wrote to it since it opened the segment.
    pub fsyncs: u32,
}

/// A log with its lock. Its place is readable without the lock.
pub struct LogCell {
    log: Mutex<Log, { rank::LOG }>,
    segs_per_sec: u32,
    /// Section, and its unused blocks, in one word.
    place: AtomicU64,
}

/// A locked log. Dropping it stores the new place.
pub struct LockedLog<'a> {
    log: MutexGuard<'a, Log, { rank::LOG }>,
    cell: &'a LogCell,
}

impl LogCell {
    pub fn new(log: Log, segs_per_sec: u32) -> Self {
        let cell = Self { log: Mutex::new(log), segs_per_sec, place: AtomicU64::new(0) };
        drop(cell.lock());
        cell
    }
    pub fn lock(&self) -> LockedLog<'_> {
        LockedLog { log: self.log.lock(), cell: self }
    }
    /// The section of the log, and the number of blocks in it not yet allocated.
    pub fn place(&self) -> (SecNo, u32) {
        let place = self.place.load(Ordering::Acquire);
        (SecNo((place >> 32) as u32), place as u32)
    }
}

impl Drop for LockedLog<'_> {
    fn drop(&mut self) {
        let per_sec = self.cell.segs_per_sec.max(1);
        let place = u64::from(self.log.segno.0 / per_sec) << 32 | u64::from(self.log.left(per_sec));
        self.cell.place.store(place, Ordering::Release);
    }
}

impl Deref for LockedLog<'_> {
    type Target = Log;
    fn deref(&self) -> &Log {
        &self.log
    }
}

impl DerefMut for LockedLog<'_> {
    fn deref_mut(&mut self) -> &mut Log {
        &mut self.log
    }
}

impl Log {
    pub fn is_full(&self) -> bool {
        self.next >= BLOCKS_PER_SEG
    }
    /// Blocks of its section not yet allocated.
    pub fn left(&self, segs_per_sec: u32) -> u32 {
        let used = self.segno.0 % segs_per_sec.max(1) * BLOCKS_PER_SEG + self.next;
        segs_per_sec.saturating_mul(BLOCKS_PER_SEG).saturating_sub(used)
    }
    /// Address of the next block.
    pub fn position(&self, geo: &Geometry) -> BlockAddr {
        geo.seg_start(self.segno).offset(self.next)
    }
    /// Stores the owner of the block at the position; false if the segment is full.
    #[must_use]
    pub fn set_owner(&mut self, owner: RawSummary) -> bool {
        let entry = self.summary.entries.get_mut(self.next as usize);
        entry.map(|e| *e = owner).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_a_locked_log_stores_its_place() {
        let kind = LogType::WarmData;
        let summary = Box::new(RawSummaryBlock::empty(kind.summary_type()));
        let log = Log { kind, segno: SegNo(7), next: 500, ssr: false, summary, fsyncs: 0 };
        let cell = LogCell::new(log, 3);
        assert_eq!(cell.place(), (SecNo(2), 512 + 12));
        let mut held = cell.lock();
        (held.segno, held.next) = (SegNo(11), 512);
        drop(held);
        assert_eq!(cell.place(), (SecNo(3), 0));
    }
}
