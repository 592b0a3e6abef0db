//! The checkpoint pack of the repaired volume.
use crate::error::Result;
use crate::finish::Totals;
use crate::logs::Logs;
use crate::state::State;
use crate::tables::{Claims, Flip};
use segno_check::tables::Volume;
use segno_format::bits::msb;
use segno_format::checkpoint::{CpFlags, RawCheckpoint, bitmap_place};
use segno_format::sit::LogType;
use segno_format::summary::{JOURNAL_BYTES, RawSummaryBlock, SummaryType};
use segno_format::{BLOCK_SIZE, Block, SegNo};
use zerocopy::FromBytes;

/// Summaries in a pack after a clean unmount: of three logs of data and three of nodes.
const SUMMARIES: u32 = 6;

/// What a pack is made of.
pub(crate) struct Parts<'p> {
    pub claims: &'p Claims,
    pub logs: &'p Logs,
    pub totals: &'p Totals,
    pub sit: &'p [Flip],
    pub nat: &'p [Flip],
}

/// All blocks of the pack, in order.
pub(crate) fn build(state: &mut State<'_>, original: &Volume<'_>, parts: &Parts<'_>) -> Result<Vec<Block>> {
    let mut bytes = original.pack.bitmaps().to_vec();
    let flags = original.pack.flags & (CpFlags::LARGE_NAT_BITMAP | CpFlags::DISABLED);
    let place = bitmap_place(&original.geo, flags);
    for (at, flips) in [(place.sit, parts.sit), (place.nat, parts.nat)] {
        for flip in flips {
            let Some(map) = bytes.get_mut(at..) else { continue };
            let old = msb::test(map, flip.b as usize);
            msb::put(map, flip.b as usize, !old);
        }
    }
    let mut blocks: Vec<Block> =
        bytes.chunks(BLOCK_SIZE).map(|b| Block::read_from_bytes(b).unwrap_or_else(|_| Block::zeroed())).collect();
    let flags = flags | CpFlags::UMOUNT | CpFlags::CRC_RECOVERY;
    let version = next_version(state, original)?;
    if let Some(first) = blocks.first_mut() {
        header(state, original, parts, first, flags, version);
    }
    for position in &parts.logs.positions {
        let mut summary = parts.claims.summary_block(state, position.seg)?;
        let kind = if position.log.is_node() { SummaryType::Node } else { SummaryType::Data };
        summary.entry_type = kind as u8;
        summary.journal = journal(state, position.log);
        blocks.push(Block(zerocopy::transmute!(summary)));
    }
    if let Some(first) = blocks.first().cloned() {
        blocks.push(first);
    }
    Ok(blocks)
}

/// Journals are empty: tables have all entries. That of the first node log has the bytes written so far.
fn journal(state: &State<'_>, log: LogType) -> [u8; JOURNAL_BYTES] {
    let stored = state.vol.summaries.of(log).filter(|_| log == LogType::HotNode);
    stored.map_or([0; JOURNAL_BYTES], |s: &RawSummaryBlock| s.journal)
}

fn header(
    state: &State<'_>,
    original: &Volume<'_>,
    parts: &Parts<'_>,
    block: &mut Block,
    flags: CpFlags,
    version: u64,
) {
    let geo = &original.geo;
    let cp: &mut RawCheckpoint = block.view_mut();
    cp.checkpoint_ver.set(version);
    cp.ckpt_flags.set(flags.bits());
    let nodes = parts.claims.nids.len() as u64;
    cp.valid_block_count.set(nodes + parts.claims.data.len() + parts.totals.reserved);
    cp.valid_node_count.set(nodes as u32);
    cp.valid_inode_count.set(state.inodes.len() as u32);
    let free = (0..geo.segment_count_main).map(SegNo);
    let free = free.filter(|s| parts.claims.is_empty_in(*s) && parts.logs.log_of(*s).is_none()).count();
    cp.free_segment_count.set(free as u32);
    cp.cp_pack_start_sum.set(1 + geo.cp_payload);
    cp.cp_pack_total_block_count.set(2 + geo.cp_payload + SUMMARIES);
    if cp.next_free_nid.get() >= geo.max_nid() {
        cp.next_free_nid.set(segno_format::Nid::ROOT.0 + 1);
    }
    for p in &parts.logs.positions {
        let (segs, offs, i) = match p.log.is_node() {
            true => (&mut cp.cur_node_segno, &mut cp.cur_node_blkoff, p.log.idx() - LogType::HotNode.idx()),
            false => (&mut cp.cur_data_segno, &mut cp.cur_data_blkoff, p.log.idx()),
        };
        if let (Some(seg), Some(off)) = (segs.get_mut(i), offs.get_mut(i)) {
            seg.set(p.seg.0);
            off.set(p.blkoff);
        }
        if let Some(t) = cp.alloc_type.get_mut(p.log.idx()) {
            *t = p.alloc_type;
        }
    }
    RawCheckpoint::seal(block);
}

/// One more than any pack has, so that neither pack nor chain nor journal can be taken for newer.
fn next_version(state: &State<'_>, original: &Volume<'_>) -> Result<u64> {
    let mut newest = state.vol.pack.cp().checkpoint_ver.get().max(original.pack.cp().checkpoint_ver.get());
    for index in 0..2 {
        let start = original.geo.pack_addr(index);
        let block = original.reader.block(start)?;
        if RawCheckpoint::verify(&block, start.0.into()).is_ok() {
            newest = newest.max(block.view::<RawCheckpoint>().checkpoint_ver.get());
        }
    }
    Ok(newest.wrapping_add(1))
}
