//! The checkpoint pack of the repaired volume.
use crate::error::{RepairError, Result};
use crate::finish::Totals;
use crate::forge;
use crate::logs::Logs;
use crate::state::State;
use crate::tables::{Claims, Flip};
use segno_check::tables::{Volume, enough_reserved};
use segno_format::bits::msb;
use segno_format::checkpoint::{CpFlags, RawCheckpoint, bitmap_place};
use segno_format::sit::LogType;
use segno_format::summary::{JOURNAL_BYTES, RawSummaryBlock, SummaryType};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, SegNo};
use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};

/// Summaries in a pack after a clean unmount: of three logs of data and three of nodes.
const SUMMARIES: u32 = 6;

/// Checkpoints by which a pack can be ahead of the one in force.
const VERSIONS_AHEAD: u64 = 1 << 32;

/// What a pack is made of.
pub(crate) struct Parts<'p> {
    pub claims: &'p Claims,
    pub logs: &'p Logs,
    pub totals: &'p Totals,
    pub sit: &'p [Flip],
    pub nat: &'p [Flip],
    /// Whether what a crash left is still to be replayed.
    pub keep_chain: bool,
}

/// All blocks of the pack, in order.
pub(crate) fn build(state: &mut State<'_>, original: &Volume<'_>, parts: &Parts<'_>) -> Result<Vec<Block>> {
    let mut bytes = original.pack.bitmaps().to_vec();
    let flags = original.pack.flags & (CpFlags::LARGE_NAT_BITMAP | CpFlags::DISABLED);
    let place = bitmap_place(&original.geo, flags);
    for (at, flips) in [(place.sit, parts.sit), (place.nat, parts.nat)] {
        for flip in flips {
            let map =
                bytes.get_mut(at..).ok_or(RepairError::Invariant("the pack has its version bitmaps"))?;
            let old = msb::test(map, flip.b as usize);
            msb::put(map, flip.b as usize, !old);
        }
    }
    let mut blocks: Vec<Block> = bytes
        .chunks(BLOCK_SIZE)
        .map(|b| Block::read_from_bytes(b).unwrap_or_else(|_| Block::zeroed()))
        .collect();
    let flags = flags | CpFlags::UMOUNT | CpFlags::CRC_RECOVERY;
    let (flags, version) = match parts.keep_chain {
        true => {
            let kept = original.pack.flags & (CpFlags::CRC_RECOVERY | CpFlags::NOCRC_RECOVERY);
            ((flags - CpFlags::CRC_RECOVERY) | kept, original.pack.cp().checkpoint_ver.get())
        }
        false => (flags, next_version(state, original)?),
    };
    let constants = constants(original)?;
    if let Some(first) = blocks.first_mut() {
        let cp: &mut RawCheckpoint = first.view_mut();
        (cp.user_block_count, cp.rsvd_segment_count, cp.overprov_segment_count) = constants;
        header(state, original, parts, first, flags, version);
        if parts.keep_chain {
            forge::seal_as(first, original.pack.crc);
        }
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
    cp.sit_ver_bitmap_bytesize.set(geo.sit_bitmap_bytes() as u32);
    cp.nat_ver_bitmap_bytesize.set(geo.nat_bitmap_bytes() as u32);
    cp.cp_pack_start_sum.set(1 + geo.cp_payload);
    cp.cp_pack_total_block_count.set(2 + geo.cp_payload + SUMMARIES);
    if cp.next_free_nid.get() >= geo.max_nid() {
        cp.next_free_nid.set(segno_format::Nid::ROOT.0 + 1);
    }
    for p in &parts.logs.positions {
        cp.set_position(p);
    }
    RawCheckpoint::seal(block);
}

/// Counts that never change: of this pack, or if they are impossible of the other one.
fn constants(original: &Volume<'_>) -> Result<(U64, U32, U32)> {
    let other = original.reader.block(original.geo.pack_addr(1 - original.pack.index.min(1)))?;
    let geo = &original.geo;
    let main = geo.segment_count_main;
    let sound = |cp: &RawCheckpoint| {
        let (reserved, over) = (cp.rsvd_segment_count.get(), cp.overprov_segment_count.get());
        let user = u64::from(main.saturating_sub(over)) * u64::from(BLOCKS_PER_SEG);
        reserved > 0
            && enough_reserved(geo, reserved)
            && over >= reserved
            && over < main
            && cp.user_block_count.get() == user
    };
    let own = original.pack.cp();
    let valid = RawCheckpoint::verify(&other, 0).is_ok() && sound(other.view());
    let cp = if !sound(own) && valid { other.view() } else { own };
    Ok((cp.user_block_count, cp.rsvd_segment_count, cp.overprov_segment_count))
}

/// One more than any pack has, so that neither pack nor chain nor journal can be taken for newer. A version far from that in
/// force is damage: nothing follows it, and a pack ahead of it might count as older than the one in force.
fn next_version(state: &State<'_>, original: &Volume<'_>) -> Result<u64> {
    let own = original.pack.cp().checkpoint_ver.get();
    let mut ahead = state.vol.pack.cp().checkpoint_ver.get().wrapping_sub(own);
    for index in 0..2 {
        for end in ends(original, index)? {
            let found = end.wrapping_sub(own);
            ahead = if found < VERSIONS_AHEAD { ahead.max(found) } else { ahead };
        }
    }
    Ok(own.wrapping_add(ahead).wrapping_add(1))
}

/// Versions at both ends of a pack, as far as they can be read.
fn ends(original: &Volume<'_>, index: usize) -> Result<Vec<u64>> {
    let start = original.geo.pack_addr(index);
    let first = original.reader.block(start)?;
    let total = first.view::<RawCheckpoint>().total_blocks(start.0.into());
    let last = total.ok().map(|n| original.reader.block(start.offset(n - 1))).transpose()?;
    let valid = [Some(first), last].into_iter().flatten().filter(|b| RawCheckpoint::verify(b, 0).is_ok());
    Ok(valid.map(|b| b.view::<RawCheckpoint>().checkpoint_ver.get()).collect())
}
