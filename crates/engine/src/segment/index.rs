//! Candidates by kind and fill, kept up to date with every change so that a victim is found without a scan.
use segno_format::sit::LogType;
use std::collections::BTreeSet;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Data,
    Node,
}

impl Class {
    pub fn of(log: LogType) -> Self {
        if log.is_node() { Self::Node } else { Self::Data }
    }
}

/// Sections to clean by class, and segments with holes by type; fewest blocks first.
#[derive(Debug, Default)]
pub struct Index {
    sections: [BTreeSet<(u32, u32)>; 2],
    segments: [BTreeSet<(u16, u32)>; 6],
}

impl Index {
    pub fn put_section(&mut self, class: Class, valid: u32, sec: u32, member: bool) {
        let set = &mut self.sections[class as usize];
        if member {
            set.insert((valid, sec));
        } else {
            set.remove(&(valid, sec));
        }
    }
    pub fn put_segment(&mut self, log: LogType, held: u16, seg: u32, member: bool) {
        let set = &mut self.segments[log.idx()];
        if member {
            set.insert((held, seg));
        } else {
            set.remove(&(held, seg));
        }
    }
    /// Sections of a class as (valid blocks, section), emptiest first.
    pub fn sections(&self, class: Class) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.sections[class as usize].iter().copied()
    }
    /// The segment of a type with the most room.
    pub fn roomiest(&self, log: LogType) -> Option<u32> {
        self.segments[log.idx()].first().map(|&(_, s)| s)
    }
}
