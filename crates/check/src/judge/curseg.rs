//! The positions of the logs against the SIT and each other.
use crate::evidence::{Pack, Volume};
use crate::report::{Kind, Rules, Sink};
use segno_format::checkpoint::LogPosition;
use segno_format::{BLOCKS_PER_SEG, Corrupt, Structure, Unit};

pub(crate) fn check(volume: &Volume<'_>, sink: &mut Sink) {
    let logs = Pack::logs(&volume.geo);
    let positions: Vec<_> = logs.iter().map(|&log| volume.pack.cp().position(log)).collect();
    for p in &positions {
        check_one(volume, p, sink);
    }
    check_apart(volume, &positions, sink);
}

fn check_one(volume: &Volume<'_>, p: &LogPosition, sink: &mut Sink) {
    let geo = &volume.geo;
    let mut rules = Rules::new(Kind::Curseg, Structure::Checkpoint, Unit::Segment, p.seg.0);
    let (main, off) = (geo.segment_count_main, u32::from(p.blkoff));
    let exists = rules.require(p.seg.0 < main, "segment of a log", p.seg.0, main)
        && rules.require(off < BLOCKS_PER_SEG, "next block of a log", off, BLOCKS_PER_SEG);
    // Read-only images never append, and their writer leaves the rest undefined.
    if exists && geo.has_ssa {
        rules.require(p.alloc_type <= 1, "allocation type of a log", p.alloc_type, 1u64);
        let stored = volume.sit.log_type(p.seg).map_or(u64::MAX, |t| t as u64);
        rules.equal("type in the SIT of a log's segment", stored, p.log as u64);
        rules.require(!volume.sit.is_valid(p.seg, off), "next block of a log is in use", off, off);
        if !p.fills_holes() {
            let used = (off + 1..BLOCKS_PER_SEG).filter(|&i| volume.sit.is_valid(p.seg, i)).count();
            rules.equal("blocks in use after the next block of an appending log", used as u64, 0u64);
        }
    }
    sink.add_broken(None, rules);
}

fn check_apart(volume: &Volume<'_>, positions: &[LogPosition], sink: &mut Sink) {
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
