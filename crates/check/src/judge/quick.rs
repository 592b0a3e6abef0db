//! The quick check: superblocks, packs, SIT and NAT, each alone and against each other.
use crate::evidence::{Bitmap, Volume, roll_forward};
use crate::judge::{curseg, load, nat, nat_bits, totals};
use crate::report::{Kind, Report, Rules, Sink, Summary};
use crate::{CheckError, CheckOptions};
use segno_device::BlockDevice;
use segno_format::{Structure, Unit};

/// Checks the tables of a volume, without nodes, directories and summaries.
///
/// A clean report means that the last unmount was clean, that no flag requires a full check, and that the
/// tables agree. The summary has only the checkpoint's values.
pub fn check_quick(device: &dyn BlockDevice, opts: &CheckOptions) -> Result<Report, CheckError> {
    let mut sink = Sink::new(opts);
    let Some(mut volume) = load::volume(device, &mut sink, &mut |_| {})? else {
        return Ok(sink.into_report(Summary::default(), false));
    };
    volume.nat.read_all()?;
    nat_bits::check(&volume, &volume.nat.scan(|_, _| {})?, &mut sink)?;
    curseg::check(&volume, &mut sink);
    nat::check_virtual(&volume.nat, &mut sink);
    check_nodes(&volume, &mut sink)?;
    let cp = volume.pack.cp();
    let counts = Summary {
        inodes: cp.valid_inode_count.get().into(),
        nodes: cp.valid_node_count.get().into(),
        orphans: volume.orphans.len() as u64,
        ..Summary::default()
    };
    let roll_forward = roll_forward::find(&volume, &mut sink)?;
    Ok(sink.into_report(totals::summary(&volume, counts, roll_forward), true))
}

/// Checks that no two nodes share a block, that each block is valid, and that the counters are the sums of
/// the tables.
fn check_nodes(volume: &Volume<'_>, sink: &mut Sink) -> Result<(), CheckError> {
    let mut places = Bitmap::new(volume.geo.main_blocks());
    let mut nodes = 0u64;
    volume.nat.scan(|nid, entry| {
        nodes = nodes.saturating_add(1);
        nat::check_place(volume, nid, &entry, &mut places, sink);
    })?;
    let cp = volume.pack.cp();
    let (all, in_node_segments) = totals::blocks_in_use(volume);
    let mut rules = Rules::new(Kind::Counter, Structure::Checkpoint, Unit::Block, volume.pack.start.0);
    let stored = cp.valid_node_count.get();
    rules.equal("valid_node_count", stored, nodes);
    rules.equal("valid_node_count against the SIT", stored, in_node_segments);
    let stored = cp.valid_block_count.get();
    rules.require(stored >= all, "valid_block_count against the SIT", stored, all);
    rules.equal("free_segment_count", cp.free_segment_count.get(), totals::free_segments(volume));
    sink.add_broken(None, rules);
    Ok(())
}
