//! An active log: the segment it writes, the next block, and the summary it fills.
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{BLOCKS_PER_SEG, BlockAddr, Geometry, SegNo};

/// See the module. One owner at a time: whoever holds its lock.
pub struct Log {
    pub kind: LogType,
    pub segno: SegNo,
    /// Offset of the next block; `BLOCKS_PER_SEG` when the segment is full and no other was found yet.
    pub next: u32,
    /// Whether it fills the holes of a used segment (SSR) instead of a free one.
    pub ssr: bool,
    pub summary: Box<RawSummaryBlock>,
    /// fsyncs that wrote to it since it opened the segment.
    pub fsyncs: u32,
}

/// What a checkpoint and a report say of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    pub kind: LogType,
    pub segno: SegNo,
    pub next: u32,
    pub ssr: bool,
}

/// The six logs in the order of their numbers, with their summaries.
pub type LogSnapshot = [(LogState, Box<RawSummaryBlock>); 6];

impl Log {
    pub fn summary_type(kind: LogType) -> SummaryType {
        if kind.is_node() { SummaryType::Node } else { SummaryType::Data }
    }
    pub fn state(&self) -> LogState {
        LogState { kind: self.kind, segno: self.segno, next: self.next, ssr: self.ssr }
    }
    pub fn is_full(&self) -> bool {
        self.next >= BLOCKS_PER_SEG
    }
    /// Address that the next block will have.
    pub fn position(&self, geo: &Geometry) -> BlockAddr {
        geo.seg_start(self.segno).offset(self.next)
    }
    /// Notes who owns the block at the position.
    pub fn set_owner(&mut self, owner: RawSummary) {
        if let Some(e) = self.summary.entries.get_mut(self.next as usize) {
            *e = owner;
        }
    }
}
