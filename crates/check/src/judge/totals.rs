//! The checkpoint's counters against what was found.
use crate::evidence::{Pack, Volume};
use crate::judge::quota;
use crate::judge::walk::Found;
use crate::report::{Kind, RollForward, Rules, Sink, Summary};
use crate::{CheckError, Pass, Progress};
use segno_format::checkpoint::CpFlags;
use segno_format::{Structure, Unit};

/// The last pass: counters and quota files. Returns what the volume holds.
pub(crate) fn finish(
    volume: &Volume<'_>,
    found: Found,
    roll_forward: RollForward,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Summary, CheckError> {
    progress(Progress::start(Pass::Totals));
    check(volume, &found.counts, sink);
    quota::check(volume, &found.usage, sink)?;
    Ok(summary(volume, found.counts, roll_forward))
}

fn check(volume: &Volume<'_>, found: &Summary, sink: &mut Sink) {
    let cp = volume.pack.cp();
    let blocks = found.nodes.saturating_add(found.data_blocks).saturating_add(found.reserved_blocks);
    let (all, nodes) = blocks_in_use(volume);
    let mut rules = Rules::new(Kind::Counter, Structure::Checkpoint, Unit::Block, volume.pack.start.0);
    rules.equal("valid_block_count", cp.valid_block_count.get(), blocks);
    rules.equal("valid_node_count", cp.valid_node_count.get(), found.nodes);
    rules.equal("valid_inode_count", cp.valid_inode_count.get(), found.inodes);
    rules.equal("free_segment_count", cp.free_segment_count.get(), free_segments(volume));
    rules.equal("valid_node_count against the SIT", cp.valid_node_count.get(), nodes);
    let with_reserved = all.saturating_add(found.reserved_blocks);
    rules.equal("valid_block_count against the SIT", cp.valid_block_count.get(), with_reserved);
    sink.add_broken(None, rules);
}

/// Valid blocks in the SIT: all, and the ones in node segments.
pub(crate) fn blocks_in_use(volume: &Volume<'_>) -> (u64, u64) {
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
pub(crate) fn free_segments(volume: &Volume<'_>) -> u64 {
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

/// The summary of a report: the counts, and values from the checkpoint and the SIT.
pub(crate) fn summary(volume: &Volume<'_>, counts: Summary, roll_forward: RollForward) -> Summary {
    Summary {
        checkpoint_ver: volume.pack.cp().checkpoint_ver.get(),
        pack: if volume.pack.index == 0 { 1 } else { 2 },
        clean_unmount: volume.pack.flags.contains(CpFlags::UMOUNT),
        free_segments: free_segments(volume),
        main_segments: volume.geo.segment_count_main.into(),
        roll_forward,
        ..counts
    }
}
