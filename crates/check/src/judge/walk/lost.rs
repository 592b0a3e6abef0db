//! The NAT and the SIT against everything the walk reached: lost nodes and blocks, and blocks in a segment of
//! the wrong type.
use super::Found;
use crate::CheckError;
use crate::evidence::{Bitmap, Volume};
use crate::report::{Kind, Rules, Sink};
use segno_format::sit::LogType;
use segno_format::{BLOCKS_PER_SEG, Corrupt, Structure, Unit};

/// Compares the NAT with the nodes that the walk reached.
pub(super) fn check_nodes(volume: &Volume<'_>, found: &Found, sink: &mut Sink) -> Result<(), CheckError> {
    volume.nat.scan(|nid, entry| {
        if !found.nids.contains(nid.0.into()) {
            let why = "node that nothing refers to, at this block";
            let e = Corrupt::nid(Structure::NatBlock, nid.0, why, entry.addr().0.into(), 0);
            sink.add_for(entry.owner().0, Kind::NodeLost, e);
        }
    })?;
    Ok(())
}

/// Compares the SIT with the blocks that the walk reached.
pub(super) fn check_blocks(volume: &Volume<'_>, found: &Found, places: &Bitmap, sink: &mut Sink) {
    for (seg, _) in volume.sit.used() {
        let base = u64::from(seg.0) * u64::from(BLOCKS_PER_SEG);
        let (mut nodes, mut data, mut lost) = (0u64, 0u64, 0u64);
        for i in
            (0..BLOCKS_PER_SEG).filter(|&off| volume.sit.is_valid(seg, off)).map(|off| base + u64::from(off))
        {
            let n = match (places.contains(i), found.data.contains(i)) {
                (true, _) => &mut nodes,
                (_, true) => &mut data,
                _ => &mut lost,
            };
            *n += 1;
        }
        let mut rules = Rules::new(Kind::BlockLost, Structure::SitBlock, Unit::Segment, seg.0);
        rules.equal("valid blocks that nothing refers to", lost, 0u64);
        let rule = rules.of(Kind::SegmentType);
        match volume.sit.log_type(seg).map(LogType::is_node) {
            Some(true) => _ = rule.equal("data blocks in a segment of nodes", data, 0u64),
            Some(false) => _ = rule.equal("nodes in a segment of data", nodes, 0u64),
            // An unknown type has been reported with the SIT.
            None => {}
        }
        sink.add_broken(None, rules);
    }
}
