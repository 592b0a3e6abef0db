//! The checkpoint pack of the repaired volume.
use crate::crc;
use crate::error::{RepairError, Result};
use crate::finish::Totals;
use crate::state::State;
use crate::tables::{Allocated, Flip, Logs};
use crate::volume::Volume;
use segno_check::enough_reserved;
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use segno_format::summary::RawSummaryBlock;
use segno_format::{BLOCKS_PER_SEG, Block, Corrupt};
use segno_layout::{Contents, Encoded, Unencodable};
use zerocopy::little_endian::{U32, U64};

/// Checkpoints by which a pack can be ahead of the one in force.
const VERSIONS_AHEAD: u64 = 1 << 32;

/// What a pack is made from.
pub(crate) struct PackInput<'p> {
    pub allocated: &'p Allocated,
    pub logs: &'p Logs,
    pub totals: &'p Totals,
    pub sit: &'p [Flip],
    pub nat: &'p [Flip],
    /// Whether what a crash left is still to be replayed.
    pub keep_chain: bool,
}

/// All blocks of the pack, in order.
pub(crate) fn build(
    state: &mut State<'_>,
    original: &Volume<'_>,
    input: &PackInput<'_>,
) -> Result<Vec<Block>> {
    let geo = &original.geo;
    let damaged = |e: Corrupt| RepairError::refused(e.to_string());
    let sit_bitmap = flipped(original.pack.sit_bitmap(geo).map_err(damaged)?, input.sit);
    let nat_bitmap = flipped(original.pack.nat_bitmap(geo).map_err(damaged)?, input.nat);
    let header = header(state, original, input)?;
    let mut summaries = Vec::new();
    for position in &input.logs.positions {
        let mut summary = Box::new(input.allocated.summary_block(state, position.seg)?);
        summary.entry_type = position.log.summary_type() as u8;
        summaries.push(summary);
    }
    let summaries: [Box<RawSummaryBlock>; 6] =
        summaries.try_into().map_err(|_| RepairError::Invariant("each log has a position"))?;
    let [d0, d1, d2, n0, n1, n2] = summaries.each_ref().map(|summary| &**summary);
    let contents = Contents {
        header: &header,
        sit_bitmap: &sit_bitmap,
        nat_bitmap: &nat_bitmap,
        orphans: &[],
        data: [d0, d1, d2],
        compact: false,
        nodes: Some([n0, n1, n2]),
        // The tables have all entries.
        nat: &[],
        sit: &[],
        kbytes_written: state.vol.summaries.kbytes_written(),
    };
    let encoded = contents.encode(geo, |block| match input.keep_chain {
        true => crc::seal_with_crc(block, original.pack.crc),
        false => RawCheckpoint::seal(block),
    });
    let Encoded { mut blocks, header, .. } = encoded.map_err(unencodable)?;
    blocks.push(header);
    Ok(blocks)
}

/// Constants of the checkpoint are as they were, so they may be impossible.
fn unencodable(why: Unencodable) -> RepairError {
    match why {
        Unencodable::Impossible(why) => {
            RepairError::refused(format!("1 finding(s) cannot be repaired yet: {why}"))
        }
        Unencodable::TooLong | Unencodable::Misfit => {
            RepairError::Invariant("the pack has room for its version bitmaps")
        }
    }
}

/// A version bitmap in which the other copy of some blocks is in force.
fn flipped(bitmap: &[u8], flips: &[Flip]) -> Vec<u8> {
    let mut bitmap = bitmap.to_vec();
    for Flip { b, .. } in flips {
        segno_layout::flip(&mut bitmap, *b);
    }
    bitmap
}

fn header(state: &State<'_>, original: &Volume<'_>, input: &PackInput<'_>) -> Result<Block> {
    let stored = original.pack.flags();
    let flags = stored & (CpFlags::LARGE_NAT_BITMAP | CpFlags::DISABLED) | CpFlags::UMOUNT;
    let (flags, version) = match input.keep_chain {
        true => {
            let kept = stored & (CpFlags::CRC_RECOVERY | CpFlags::NOCRC_RECOVERY);
            (flags | kept, original.pack.version())
        }
        false => (flags | CpFlags::CRC_RECOVERY, next_version(state, original)?),
    };
    let mut block = original.pack.header().clone();
    let (constants, geo) = (constants(original)?, &original.geo);
    let cp: &mut RawCheckpoint = block.view_mut();
    (cp.user_block_count, cp.rsvd_segment_count, cp.overprov_segment_count) = constants;
    cp.checkpoint_ver.set(version);
    cp.ckpt_flags.set(flags.bits());
    let nodes = input.allocated.nids.len() as u64;
    cp.valid_block_count.set(nodes + input.allocated.data.len() + input.totals.reserved);
    cp.valid_node_count.set(nodes as u32);
    cp.valid_inode_count.set(state.inodes.len() as u32);
    let free =
        geo.segments().filter(|s| input.allocated.is_empty_in(*s) && input.logs.log_of(*s).is_none()).count();
    cp.free_segment_count.set(free as u32);
    if cp.next_free_nid.get() >= geo.max_nid() {
        cp.next_free_nid.set(segno_format::Nid::ROOT.0 + 1);
    }
    for p in &input.logs.positions {
        cp.set_position(p);
    }
    Ok(block)
}

/// Counts that never change: of this pack, or if they are impossible of the other one.
fn constants(original: &Volume<'_>) -> Result<(U64, U32, U32)> {
    let other = original.device.block(original.geo.pack_addr(1 - original.pack.index.min(1)))?;
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

/// One more than any pack has, so that neither pack nor chain nor journal can be taken for newer. A version
/// far from that in force is damage: nothing follows it, and a pack ahead of it might count as older than the
/// one in force.
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
    let first = original.device.block(start)?;
    let total = first.view::<RawCheckpoint>().total_blocks(start.0.into());
    let last = total.ok().map(|n| original.device.block(start.offset(n - 1))).transpose()?;
    let valid = [Some(first), last].into_iter().flatten().filter(|b| RawCheckpoint::verify(b, 0).is_ok());
    Ok(valid.map(|b| b.view::<RawCheckpoint>().checkpoint_ver.get()).collect())
}
