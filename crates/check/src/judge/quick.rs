//! The quick check: what superblocks, packs, SIT and NAT say about themselves and each other.
use crate::evidence::{Bitmap, Volume, roll_forward};
use crate::judge::{curseg, load, nat, totals};
use crate::report::{Kind, Report, Sink, Summary};
use crate::{CheckError, CheckOptions};
use segno_device::BlockDevice;
use segno_format::checkpoint::CpFlags;
use segno_format::{Corrupt, Structure};

/// Checks the tables of a volume, without nodes, directories and summaries.
///
/// A clean report says that the last unmount was clean, that nothing asks for a full check, and that the tables agree. The
/// summary has only what the checkpoint says.
pub fn check_quick(device: &dyn BlockDevice, opts: &CheckOptions) -> Result<Report, CheckError> {
    let mut sink = Sink::new(opts);
    let Some(volume) = load::volume(device, &mut sink, &mut |_| {})? else {
        return Ok(sink.into_report(Summary::default(), false));
    };
    curseg::check(&volume, &mut sink);
    nat::check_virtual(&volume.nat, &mut sink);
    check_nodes(&volume, &mut sink);
    let cp = volume.pack.cp();
    let summary = Summary {
        checkpoint_ver: cp.checkpoint_ver.get(),
        pack: if volume.pack.index == 0 { 1 } else { 2 },
        clean_unmount: volume.pack.flags.contains(CpFlags::UMOUNT),
        inodes: cp.valid_inode_count.get().into(),
        nodes: cp.valid_node_count.get().into(),
        orphans: volume.orphans.len() as u64,
        free_segments: totals::free_segments(&volume),
        main_segments: volume.geo.segment_count_main.into(),
        roll_forward: roll_forward::find(&volume, &mut sink)?,
        ..Summary::default()
    };
    Ok(sink.into_report(summary, true))
}

/// Every node has a valid block of its own, and the counters are the sums of the tables.
fn check_nodes(volume: &Volume<'_>, sink: &mut Sink) {
    let geo = &volume.geo;
    let mut places = Bitmap::new(geo.main_blocks());
    let mut nodes = 0u64;
    for (nid, entry) in volume.nat.in_use() {
        nodes = nodes.saturating_add(1);
        let (addr, ino) = (entry.addr(), entry.owner().0);
        let bad = |why| Corrupt::nid(Structure::NatBlock, nid.0, why, addr.0.into(), 0);
        match geo.seg_of(addr) {
            None => sink.add_for(ino, Kind::NatEntry, bad("address outside the main area")),
            Some((seg, off)) => {
                if !places.insert((addr.0 - geo.main_blkaddr).into()) {
                    sink.add_for(ino, Kind::NatDuplicate, bad("another nid has the same block"));
                }
                if !volume.sit.is_valid(seg, off) {
                    sink.add_for(ino, Kind::BlockFree, bad("block is free in the SIT"));
                }
            }
        }
    }
    let cp = volume.pack.cp();
    let (all, in_node_segments) = totals::blocks_in_use(volume);
    let mut require = |ok: bool, why, stored: u64, counted: u64| {
        if !ok {
            let at = volume.pack.start.0.into();
            sink.add(Kind::Counter, Corrupt::block(Structure::Checkpoint, at, why, stored, counted));
        }
    };
    let stored = u64::from(cp.valid_node_count.get());
    require(stored == nodes, "valid_node_count", stored, nodes);
    require(stored == in_node_segments, "valid_node_count against the SIT", stored, in_node_segments);
    let stored = cp.valid_block_count.get();
    require(stored >= all, "valid_block_count against the SIT", stored, all);
    let (stored, free) = (u64::from(cp.free_segment_count.get()), totals::free_segments(volume));
    require(stored == free, "free_segment_count", stored, free);
}
