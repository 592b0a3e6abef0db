//! The checkpoint's counters against what was found.
use crate::evidence::{Pack, Tables};
use crate::judge::walk::Found;
use crate::report::{Kind, RollForward, Sink, Summary};
use segno_format::checkpoint::CpFlags;
use segno_format::{Corrupt, Structure};

pub(crate) fn check(volume: &Tables<'_>, found: &Found, sink: &mut Sink) {
    let cp = volume.pack.cp();
    let blocks = found.nodes.saturating_add(found.data_blocks).saturating_add(found.reserved_blocks);
    let (all, nodes) = blocks_in_use(volume);
    let mut require = |why, stored: u64, counted: u64| {
        if stored != counted {
            let e = Corrupt::block(Structure::Checkpoint, volume.pack.start.0.into(), why, stored, counted);
            sink.add(Kind::Counter, e);
        }
    };
    require("valid_block_count", cp.valid_block_count.get(), blocks);
    require("valid_node_count", cp.valid_node_count.get().into(), found.nodes);
    require("valid_inode_count", cp.valid_inode_count.get().into(), found.inodes);
    require("free_segment_count", cp.free_segment_count.get().into(), free_segments(volume));
    require("valid_node_count against the SIT", cp.valid_node_count.get().into(), nodes);
    require(
        "valid_block_count against the SIT",
        cp.valid_block_count.get(),
        all.saturating_add(found.reserved_blocks),
    );
}

/// Valid blocks of the SIT, and those in segments of nodes.
pub(crate) fn blocks_in_use(volume: &Tables<'_>) -> (u64, u64) {
    let (mut all, mut nodes) = (0u64, 0u64);
    for (seg, n) in volume.sit.used() {
        all = all.saturating_add(n.into());
        if volume.sit.log_type(seg).is_some_and(|t| t.is_node()) {
            nodes = nodes.saturating_add(n.into());
        }
    }
    (all, nodes)
}

/// Segments without a valid block that no log writes to.
pub(crate) fn free_segments(volume: &Tables<'_>) -> u64 {
    let empty_logs = Pack::logs(&volume.geo)
        .iter()
        .map(|&log| volume.pack.cp().position(log).seg)
        .collect::<std::collections::HashSet<_>>()
        .into_iter()
        .filter(|&seg| seg.0 < volume.geo.segment_count_main && volume.sit.count(seg) == 0)
        .count();
    let used = volume.sit.used().count();
    u64::from(volume.geo.segment_count_main).saturating_sub((used + empty_logs) as u64)
}

/// What the volume holds.
pub(crate) fn summary(volume: &Tables<'_>, found: &Found, roll_forward: RollForward) -> Summary {
    Summary {
        checkpoint_ver: volume.pack.cp().checkpoint_ver.get(),
        pack: if volume.pack.index == 0 { 1 } else { 2 },
        clean_unmount: volume.pack.flags.contains(CpFlags::UMOUNT),
        inodes: found.inodes,
        dirs: found.dirs,
        files: found.files,
        symlinks: found.symlinks,
        special_files: found.special_files,
        orphans: found.orphans,
        nodes: found.nodes,
        data_blocks: found.data_blocks,
        reserved_blocks: found.reserved_blocks,
        free_segments: free_segments(volume),
        main_segments: volume.geo.segment_count_main.into(),
        roll_forward,
    }
}
