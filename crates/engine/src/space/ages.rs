//! When sections were opened, and the log for a data block by the age of its old copy.
use super::Space;
use super::table::Table;
use segno_clean::lifetime::{DataLog, Lifetimes, OldCopy};
use segno_format::sit::LogType;
use segno_format::{BlockAddr, SecNo, SegNo};

/// The clock of opening stamps, and the lifetimes measured with it.
#[derive(Debug, Default)]
pub(super) struct Ages {
    /// Data blocks written.
    written: u64,
    /// `None` with `lifetime=off`.
    lifetimes: Option<Lifetimes>,
}

impl Table {
    /// Gives each section a stamp by the rank of its SIT mtime, as if the sections had been written one after the other.
    pub fn stamp_by_mtime(&mut self) {
        let mut used: Vec<(u64, SecNo)> = (0..)
            .map(SecNo)
            .zip(self.secs.iter())
            .filter(|(_, s)| s.valid > 0)
            .map(|(sec, _)| (self.section_mtime(sec), sec))
            .collect();
        used.sort_unstable();
        for (_, sec) in used {
            self.index.opened(sec.0, self.ages.written);
            self.ages.written += u64::from(self.index.per_sec());
        }
    }
    /// Orders cleaning candidates by opening too, from now on.
    pub fn keep_openings(&mut self) {
        self.index.keep_openings();
    }
    /// Separates data by lifetime from now on.
    pub fn separate_lifetimes(&mut self) {
        self.ages.lifetimes = Some(Lifetimes::new(self.index.per_sec()));
    }
    /// Data blocks written; the clock of opening stamps.
    pub fn written(&self) -> u64 {
        self.ages.written
    }

    /// Whether writes are known to be spread evenly.
    pub fn writes_are_even(&self) -> bool {
        self.ages.lifetimes.as_ref().is_some_and(Lifetimes::is_even)
    }

    pub(super) fn count_written(&mut self, seg: SegNo, blocks: u32) {
        if !self.log_of(seg).is_node() {
            self.ages.written += u64::from(blocks);
        }
    }

    /// A log opens a segment. The holes of a used section do not make it young.
    pub(super) fn stamp_opening(&mut self, seg: SegNo) {
        let sec = self.geo.sec_of(seg);
        if self.valid_in_section(sec) == 0 {
            self.index.opened(sec.0, self.ages.written);
        }
    }

    /// The last valid block of a segment was freed; the lifetime of a hot section ends with that of all its
    /// segments. Cleaning keeps the section pinned meanwhile, so pins do not count as use.
    pub(super) fn note_emptied(&mut self, sec: SecNo, log: LogType) {
        if log != LogType::HotData || self.valid_in_section(sec) > 0 {
            return;
        }
        if self.geo.segments_of(sec).any(|s| self.unpublished.contains_key(&s) || self.seg(s).current) {
            return;
        }
        let opened = self.index.opening(sec.0);
        if let Some(lifetimes) = &mut self.ages.lifetimes {
            lifetimes.hot_ended(opened, self.ages.written);
        }
    }

    fn log_of_written(&mut self, old: BlockAddr) -> LogType {
        let old = self.geo.seg_of(old).and_then(|(seg, _)| {
            let opened = self.index.opening(self.geo.sec_of(seg).0);
            Some(OldCopy { log: data_log(self.log_of(seg))?, opened })
        });
        let [hot, warm, cold, ..] = self.valid_by_log;
        let now = self.ages.written;
        let lifetimes = self.ages.lifetimes.as_mut();
        lifetimes.map_or(LogType::WarmData, |l| log_type(l.written(old, now, [hot, warm, cold])))
    }

    fn log_of_moved(&self, from: SegNo) -> LogType {
        let moved = |l: &Lifetimes| Some(log_type(l.moved(data_log(self.log_of(from))?)));
        self.ages.lifetimes.as_ref().and_then(moved).unwrap_or(LogType::ColdData)
    }
}

impl Space {
    /// The log of each block that a file without a hint writes, from the block that it replaces.
    pub fn logs_of_written(&self, old: &[BlockAddr]) -> Vec<LogType> {
        self.with_table(|t| old.iter().map(|&a| t.log_of_written(a)).collect())
    }
    /// The log for data blocks that cleaning moves out of a segment.
    pub fn log_of_moved(&self, from: SegNo) -> LogType {
        self.with_table(|t| t.log_of_moved(from))
    }
}

pub(super) fn data_log(log: LogType) -> Option<DataLog> {
    DataLog::ALL.into_iter().find(|&data| log_type(data) == log)
}

pub(super) fn log_type(log: DataLog) -> LogType {
    match log {
        DataLog::Hot => LogType::HotData,
        DataLog::Warm => LogType::WarmData,
        DataLog::Cold => LogType::ColdData,
    }
}
