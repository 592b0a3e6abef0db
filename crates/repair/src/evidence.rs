//! Whether enough is left of SIT, NAT and SSA to know which blocks are in use. With the SIT, all nodes in use are found by their
//! footers. Without it, the NAT names the nodes and the SSA proves the blocks of files; if one of these has lost blocks as
//! well, nodes and blocks that a repair cannot place may still be in use.
use crate::error::Result;
use crate::volume::Volume;
use segno_format::geometry::SIT_PER_BLOCK;
use segno_format::nat::{RawNatBlock, RawNatEntry};
use segno_format::sit::RawSitBlock;
use segno_format::summary::RawSummaryBlock;
use segno_format::{BLOCKS_PER_SEG, SegNo};
use std::collections::BTreeSet;

/// The table that has lost blocks together with the SIT.
pub(crate) fn lost_with_sit(vol: &Volume<'_>) -> Result<Option<&'static str>> {
    Ok(match lost_sit(vol)? {
        true if lost_nat(vol)? => Some("NAT"),
        true if lost_ssa(vol)? => Some("SSA"),
        _ => None,
    })
}

/// Blocks are lost if one has no sound entry, and the others have fewer nodes than the checkpoint counts.
fn lost_nat(vol: &Volume<'_>) -> Result<bool> {
    let geo = &vol.geo;
    let sound = |e: &RawNatEntry| geo.in_main(e.addr()) && geo.nid_ok(e.owner());
    let mut unsound = false;
    for b in 0..geo.nat_blocks() {
        let block = vol.device.block(geo.nat_addr(b, vol.pack.nat_copy(b)))?;
        let entries = &block.view::<RawNatBlock>().entries;
        // The two virtual inodes have the address 1.
        let used = entries.iter().filter(|e| e.addr().0 > 1).count();
        unsound |= entries.iter().filter(|e| sound(e)).count() * 2 <= used;
    }
    let counted = vol.pack.cp().valid_node_count.get() as usize;
    Ok(unsound && vol.nat.in_use().filter(|(_, e)| sound(e)).count() < counted)
}

/// Blocks are lost if one has no sound entry of a segment in use, and the others have fewer valid blocks than the checkpoint
/// counts. A single damaged entry is not enough, unless no block is sound.
fn lost_sit(vol: &Volume<'_>) -> Result<bool> {
    let geo = &vol.geo;
    let (mut blocks, mut sound, mut valid) = (0, 0, 0);
    for b in 0..geo.sit_blocks() {
        let block = vol.device.block(geo.sit_addr(b, vol.pack.sit_copy(b)))?;
        let first = b * SIT_PER_BLOCK;
        let end = geo.segment_count_main.min(first.saturating_add(SIT_PER_BLOCK));
        let segments = || (first..end).map(SegNo);
        let entries = &block.view::<RawSitBlock>().entries;
        let is_sound = segments().zip(entries).any(|(seg, e)| e.valid() > 0 && e.parse(seg).is_ok());
        (blocks, sound) = (blocks + 1, sound + u32::from(is_sound));
        let known = segments().filter(|seg| is_sound || vol.sit.in_journal(*seg));
        valid += known.map(|seg| u64::from(vol.sit.count(seg))).sum::<u64>();
    }
    let missing = vol.pack.cp().valid_block_count.get().saturating_sub(valid);
    Ok(sound < blocks && missing > if sound == 0 { 0 } else { BLOCKS_PER_SEG.into() })
}

/// Blocks are lost if a segment that was written has no summary.
fn lost_ssa(vol: &Volume<'_>) -> Result<bool> {
    let logs: BTreeSet<SegNo> = vol.log_segments().collect();
    for seg in vol.geo.segments().filter(|seg| !logs.contains(seg)) {
        let block = vol.device.block(vol.geo.ssa_addr(seg))?;
        let readable = block.view::<RawSummaryBlock>().parse_type(0).is_ok();
        if (block.is_zero() || !readable) && !vol.device.block(vol.geo.seg_start(seg))?.is_zero() {
            return Ok(true);
        }
    }
    Ok(false)
}
