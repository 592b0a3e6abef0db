//! Segments with holes by type, updated with every change so that no scan is needed.
use segno_format::SegNo;
use segno_format::sit::LogType;
use std::collections::BTreeSet;

/// Segments by log type; fewest blocks first.
#[derive(Debug, Default)]
pub struct Holes {
    segments: [BTreeSet<(u16, SegNo)>; 6],
}

impl Holes {
    pub fn put(&mut self, log: LogType, held: u16, seg: SegNo, member: bool) {
        let set = &mut self.segments[log.idx()];
        if member {
            set.insert((held, seg));
        } else {
            set.remove(&(held, seg));
        }
    }
    /// Segments of a type, most free blocks first.
    pub fn of(&self, log: LogType) -> impl Iterator<Item = SegNo> + '_ {
        self.segments[log.idx()].iter().map(|&(_, s)| s)
    }
}
