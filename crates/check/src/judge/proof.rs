//! Whether anything is wrong at all, in little memory and little more than one read of the inodes.
//!
//! A [`MultisetHash`] sums up the references in tables, summaries, inodes and directories instead of storing them.
//! If the sums balance, the volume has no errors. If not, or if something cannot be read, the check starts
//! again and examines one thing after the other.
use crate::evidence::{AHEAD, Bitmap, Item, MultisetHash, NodeScan, Ssa, Volume, roll_forward};
use crate::judge::{curseg, load, nat, nat_bits, totals, walk};
use crate::report::{Report, Sink};
use crate::{CheckError, CheckOptions, Progress};
use segno_device::BlockDevice;
use segno_format::{BLOCKS_PER_SEG, BlockAddr};

/// The report on a volume without errors; `None` if there may be some.
pub(crate) fn run(
    device: &dyn BlockDevice,
    opts: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Report>, CheckError> {
    let mut sink = Sink::new(opts);
    let Some(volume) = load::volume(device, &mut sink, progress)? else { return Ok(None) };
    let mut hash = MultisetHash::new(volume.geo.has_ssa);
    // Twice what is read at once, so that neighbours are found to follow each other.
    let mut ssa = Ssa::new(&volume, 2 * AHEAD);
    let Some(scan) = NodeScan::take(&volume, &ssa, &mut hash)? else { return Ok(None) };
    nat_bits::check(&volume, &scan.stored_in_use, &mut sink)?;
    curseg::check(&volume, &mut sink);
    nat::check_virtual(&volume.nat, &mut sink);
    let roll_forward = roll_forward::find(&volume, &mut sink)?;
    if !sink.is_clean() || !add_summaries(&volume, &mut ssa, &scan.places, &mut hash)? {
        return Ok(None);
    }
    let found = walk::prove(&volume, &scan, hash, opts.data, &mut sink, progress)?;
    volume.nat.was_read()?;
    let Some(found) = found else { return Ok(None) };
    let summary = totals::finish(&volume, found, roll_forward, &mut sink, progress)?;
    Ok(sink.is_clean().then(|| sink.into_report(summary, true)))
}

/// Adds the summary entries of all valid blocks. Returns whether each has the type, node or data, that the
/// NAT implies.
fn add_summaries(
    volume: &Volume<'_>,
    ssa: &mut Ssa<'_>,
    places: &Bitmap,
    hash: &mut MultisetHash,
) -> Result<bool, CheckError> {
    for (seg, _) in volume.sit.used() {
        for off in (0..BLOCKS_PER_SEG).filter(|&off| volume.sit.is_valid(seg, off)) {
            let block = u64::from(seg.0) * u64::from(BLOCKS_PER_SEG) + u64::from(off);
            let addr = BlockAddr(volume.geo.main_blkaddr.saturating_add(block as u32));
            let Some(stored) = ssa.entry(addr)? else { continue };
            let is_node = places.contains(block);
            if stored.is_node() != Some(is_node) {
                return Ok(false);
            }
            if is_node {
                hash.find(Item::node_block(addr, stored.entry.nid.get()));
            } else {
                hash.expect(Item::data_block(addr, stored.entry));
            }
        }
    }
    Ok(true)
}
