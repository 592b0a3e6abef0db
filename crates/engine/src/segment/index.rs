//! Segments with holes by type, kept up to date with every change so that none is found by a scan.
use segno_clean::Class;
use segno_format::sit::LogType;
use std::collections::BTreeSet;

/// What a section of a log's type holds.
pub fn class_of(log: LogType) -> Class {
    if log.is_node() { Class::Node } else { Class::Data }
}

/// By type; fewest blocks first.
#[derive(Debug, Default)]
pub struct Holes {
    segments: [BTreeSet<(u16, u32)>; 6],
}

impl Holes {
    pub fn put(&mut self, log: LogType, held: u16, seg: u32, member: bool) {
        let set = &mut self.segments[log.idx()];
        if member {
            set.insert((held, seg));
        } else {
            set.remove(&(held, seg));
        }
    }
    /// The segment of a type with the most room.
    pub fn roomiest(&self, log: LogType) -> Option<u32> {
        self.segments[log.idx()].first().map(|&(_, s)| s)
    }
}
