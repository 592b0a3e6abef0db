//! The positions of the logs against the SIT and each other.
use crate::evidence::{Pack, Tables};
use crate::report::{Kind, Sink};
use segno_format::checkpoint::LogPosition;
use segno_format::{BLOCKS_PER_SEG, Corrupt, Structure};

pub(crate) fn check(volume: &Tables<'_>, sink: &mut Sink) {
    let logs = Pack::logs(&volume.geo);
    let positions: Vec<_> = logs.iter().map(|&log| volume.pack.cp().position(log)).collect();
    for p in &positions {
        check_one(volume, p, sink);
    }
    check_apart(volume, &positions, sink);
}

fn check_one(volume: &Tables<'_>, p: &LogPosition, sink: &mut Sink) {
    let geo = &volume.geo;
    let mut require = |ok: bool, why, found: u64, expected: u64| {
        if !ok {
            sink.add(Kind::Curseg, Corrupt::seg(Structure::Checkpoint, p.seg.0, why, found, expected));
        }
        ok
    };
    let main = geo.segment_count_main;
    if !require(p.seg.0 < main, "segment of a log", p.seg.0.into(), main.into()) {
        return;
    }
    let off = u32::from(p.blkoff);
    if !require(off < BLOCKS_PER_SEG, "next block of a log", off.into(), BLOCKS_PER_SEG.into()) {
        return;
    }
    if !geo.has_ssa {
        // Read-only images never append, and their writer leaves the rest undefined.
        return;
    }
    require(p.alloc_type <= 1, "allocation type of a log", p.alloc_type.into(), 1);
    let kind = volume.sit.log_type(p.seg);
    let stored = kind.map_or(u64::MAX, |t| t as u64);
    require(kind == Some(p.log), "type in the SIT of a log's segment", stored, p.log as u64);
    require(!volume.sit.is_valid(p.seg, off), "next block of a log is in use", off.into(), off.into());
    if !p.fills_holes() {
        let used = (off + 1..BLOCKS_PER_SEG).filter(|&i| volume.sit.is_valid(p.seg, i)).count();
        require(used == 0, "blocks in use after the next block of an appending log", used as u64, 0);
    }
}

fn check_apart(volume: &Tables<'_>, positions: &[LogPosition], sink: &mut Sink) {
    for (i, p) in positions.iter().enumerate() {
        let section = volume.geo.sec_of(p.seg);
        let before = positions.iter().take(i);
        if let Some(other) = before.into_iter().find(|q| volume.geo.sec_of(q.seg) == section) {
            let why = "two logs share a section";
            let e = Corrupt::seg(Structure::Checkpoint, p.seg.0, why, p.log as u64, other.log as u64);
            sink.add(Kind::Curseg, e);
        }
    }
}
