//! Where the logs go on: where they were if that is possible, else in a free section or in holes.
use crate::error::{RepairError, Result};
use crate::state::State;
use crate::tables::{Allocated, Logs};
use crate::zones::Zones;
use segno_format::checkpoint::LogPosition;
use segno_format::sit::LogType;
use segno_format::{BLOCKS_PER_SEG, Geometry, SecNo, SegNo};
use std::collections::BTreeSet;

struct Choice<'c> {
    geo: Geometry,
    allocated: &'c Allocated,
    zones: &'c Zones,
    /// Sections that logs have by now.
    sections: BTreeSet<SecNo>,
}

/// Chooses a position for each log; no two are in one section.
pub(crate) fn choose(state: &State<'_>, allocated: &Allocated, zones: &Zones) -> Result<Logs> {
    let mut choice = Choice { geo: state.vol.geo, allocated, zones, sections: BTreeSet::new() };
    let kept = LogType::ALL.map(|log| {
        let p = state.vol.pack.cp().position(log);
        (log, Some(p).filter(|p| choice.fits(p) && choice.sections.insert(choice.geo.sec_of(p.seg))))
    });
    let mut positions = Vec::new();
    for (log, position) in kept {
        let found = position.or_else(|| choice.fresh(log)).or_else(|| choice.hole(log));
        positions.push(found.ok_or_else(|| {
            RepairError::refused("not enough free space for the repair: no segment is left for a log")
        })?);
    }
    Ok(Logs { positions })
}

impl Choice<'_> {
    /// Whether a log can go on at its position.
    fn fits(&self, p: &LogPosition) -> bool {
        let (geo, off) = (&self.geo, u32::from(p.blkoff));
        if p.seg.0 >= geo.segment_count_main || off >= BLOCKS_PER_SEG || p.alloc_type > 1 {
            return false;
        }
        let start = geo.seg_start(p.seg);
        let last = if p.alloc_type == 0 { BLOCKS_PER_SEG } else { off + 1 };
        self.may_have(p.log, p.seg) && (off..last).all(|off| !self.allocated.contains(start.offset(off)))
    }

    /// Whether a segment has no blocks of the other kind.
    fn may_have(&self, log: LogType, seg: SegNo) -> bool {
        let other = if log.is_node() { &self.allocated.data } else { &self.allocated.nodes };
        other.is_empty_in(seg)
    }

    fn fresh(&mut self, log: LogType) -> Option<LogPosition> {
        let geo = &self.geo;
        let empty = |sec: &SecNo| geo.segments_of(*sec).all(|seg| self.allocated.is_empty_in(seg));
        let free = |sec: &SecNo| !self.sections.contains(sec) && self.zones.may_begin(*sec) && empty(sec);
        let sec = geo.sections().find(free)?;
        self.sections.insert(sec);
        Some(LogPosition { log, seg: geo.sec_start(sec), blkoff: 0, alloc_type: 0 })
    }

    fn hole(&mut self, log: LogType) -> Option<LogPosition> {
        if self.zones.has_pointers {
            return None;
        }
        for seg in self.geo.segments() {
            if self.sections.contains(&self.geo.sec_of(seg)) || !self.may_have(log, seg) {
                continue;
            }
            let start = self.geo.seg_start(seg);
            if let Some(off) = (0..BLOCKS_PER_SEG).find(|&off| !self.allocated.contains(start.offset(off))) {
                self.sections.insert(self.geo.sec_of(seg));
                return Some(LogPosition { log, seg, blkoff: off as u16, alloc_type: 1 });
            }
        }
        None
    }
}
