//! Where the logs go on: where they were if that is possible, else in a free section or in holes.
use crate::error::{RepairError, Result};
use crate::state::State;
use crate::tables::{Claims, Logs};
use crate::zones::Zones;
use segno_format::checkpoint::LogPosition;
use segno_format::sit::LogType;
use segno_format::{BLOCKS_PER_SEG, SegNo};
use std::collections::BTreeSet;

/// Chooses a position for each log; no two are in one section.
pub(crate) fn choose(state: &State<'_>, claims: &Claims, zones: &Zones) -> Result<Logs> {
    let geo = &state.vol.geo;
    let mut sections = BTreeSet::new();
    let mut kept = Vec::new();
    for log in LogType::ALL {
        let p = state.vol.pack.cp().position(log);
        let good = fits(state, claims, &p) && sections.insert(geo.sec_of(p.seg));
        kept.push((log, good.then_some(p)));
    }
    let mut positions = Vec::new();
    for (log, position) in kept {
        let found = position.or_else(|| fresh(state, claims, zones, log, &mut sections));
        let holes = !zones.has_pointers;
        let found = found.or_else(|| holes.then(|| hole(state, claims, log, &mut sections)).flatten());
        positions.push(found.ok_or_else(|| {
            RepairError::refused("not enough free space for the repair: no segment is left for a log")
        })?);
    }
    Ok(Logs { positions })
}

/// Whether a log can go on at its position.
fn fits(state: &State<'_>, claims: &Claims, p: &LogPosition) -> bool {
    let (geo, off) = (&state.vol.geo, u32::from(p.blkoff));
    if p.seg.0 >= geo.segment_count_main || off >= BLOCKS_PER_SEG || p.alloc_type > 1 {
        return false;
    }
    let other = if p.log.is_node() { &claims.data } else { &claims.nodes };
    let start = geo.seg_start(p.seg);
    let last = if p.alloc_type == 0 { BLOCKS_PER_SEG } else { off + 1 };
    other.is_empty_in(p.seg) && (off..last).all(|off| !claims.contains(start.offset(off)))
}

fn fresh(
    state: &State<'_>,
    claims: &Claims,
    zones: &Zones,
    log: LogType,
    sections: &mut BTreeSet<u32>,
) -> Option<LogPosition> {
    let geo = &state.vol.geo;
    let empty = |sec: &u32| {
        let first = geo.sec_start(*sec);
        (first.0..first.0 + geo.segs_per_sec).all(|seg| claims.is_empty_in(SegNo(seg)))
    };
    let sec =
        (0..geo.section_count).find(|sec| !sections.contains(sec) && zones.may_begin(*sec) && empty(sec))?;
    sections.insert(sec);
    Some(LogPosition { log, seg: geo.sec_start(sec), blkoff: 0, alloc_type: 0 })
}

fn hole(
    state: &State<'_>,
    claims: &Claims,
    log: LogType,
    sections: &mut BTreeSet<u32>,
) -> Option<LogPosition> {
    let geo = &state.vol.geo;
    let other = if log.is_node() { &claims.data } else { &claims.nodes };
    for seg in (0..geo.segment_count_main).map(SegNo) {
        if sections.contains(&geo.sec_of(seg)) || !other.is_empty_in(seg) {
            continue;
        }
        let start = geo.seg_start(seg);
        if let Some(off) = (0..BLOCKS_PER_SEG).find(|&off| !claims.contains(start.offset(off))) {
            sections.insert(geo.sec_of(seg));
            return Some(LogPosition { log, seg, blkoff: off as u16, alloc_type: 1 });
        }
    }
    None
}
