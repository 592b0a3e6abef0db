//! The NAT and the SIT against everything the walk reached: what is lost, and what lies in the wrong segment.
use super::Found;
use crate::evidence::{Bitmap, Tables, Volume};
use crate::report::{Kind, Sink};
use segno_format::sit::LogType;
use segno_format::{BLOCKS_PER_SEG, Corrupt, Structure};

/// Compares the NAT with the nodes that the walk reached.
pub(super) fn check_nodes(volume: &Volume<'_>, found: &Found, sink: &mut Sink) {
    for (nid, entry) in volume.nat.in_use() {
        if !found.nids.contains(nid.0.into()) {
            let why = "node that nothing refers to, at this block";
            let e = Corrupt::nid(Structure::NatBlock, nid.0, why, entry.addr().0.into(), 0);
            sink.add_for(entry.owner().0, Kind::NodeLost, e);
        }
    }
}

/// Compares the SIT with the blocks that the walk reached.
pub(super) fn check_blocks(volume: &Tables<'_>, found: &Found, places: &Bitmap, sink: &mut Sink) {
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
        let mut require = |kind, why, blocks| {
            if blocks != 0 {
                sink.add(kind, Corrupt::seg(Structure::SitBlock, seg.0, why, blocks, 0));
            }
        };
        require(Kind::BlockLost, "valid blocks that nothing refers to", lost);
        match volume.sit.log_type(seg).map(LogType::is_node) {
            Some(true) => require(Kind::SegmentType, "data blocks in a segment of nodes", data),
            Some(false) => require(Kind::SegmentType, "nodes in a segment of data", nodes),
            // An unknown type has been reported with the SIT.
            None => {}
        }
    }
}
