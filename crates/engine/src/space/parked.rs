//! Segments that streams left before they were full. The next stream or log of the type continues there.
use super::table::Table;
use segno_format::sit::LogType;
use segno_format::{BLOCKS_PER_SEG, SegNo};
use std::collections::VecDeque;

/// Number of segments remembered; SSR and cleaning find the others.
const PARKED_MAX: usize = 1024;

impl Table {
    /// Remembers a segment that a stream leaves before it is full.
    pub fn park(&mut self, seg: SegNo, next: u32) {
        if self.parked.len() == PARKED_MAX {
            self.parked.pop_front();
        }
        self.parked.push_back((seg, next));
    }
    /// Takes a segment of a type that a stream left and that is unchanged since, and the block to continue at. The log or
    /// stream leaves another segment for it.
    pub fn take_parked(&mut self, log: LogType, leaves: Option<SegNo>) -> Option<(SegNo, u32)> {
        let mut kept = VecDeque::new();
        let mut found = None;
        while let Some((seg, next)) = self.parked.pop_front() {
            let usable = !self.is_free(seg)
                && !self.is_busy(seg)
                && (next..BLOCKS_PER_SEG).all(|off| self.next_hole(seg, off) == Some(off));
            let fits = self.log_of(seg) == log && !self.has_other_log(seg, leaves);
            if usable && fits {
                found = Some((seg, next));
                break;
            }
            if usable {
                kept.push_back((seg, next));
            }
        }
        kept.append(&mut self.parked);
        self.parked = kept;
        found
    }
    /// Unused blocks of the segments that streams left.
    pub fn parked_blocks(&self) -> u64 {
        self.parked.iter().map(|&(_, next)| u64::from(BLOCKS_PER_SEG - next)).sum()
    }
}
