//! Numbers in the checkpoint block that a mount refuses when they are out of range.
use crate::evidence::Pack;
use crate::report::{Kind, Rules, Sink};
use segno_format::checkpoint::{CHECKSUM_OFFSET_MIN, CpFlags, nat_bits_blocks};
use segno_format::superblock::Superblock;
use segno_format::{BLOCKS_PER_SEG, Features, Geometry, Structure, Unit};
use zerocopy::IntoBytes;

/// Blocks of a pack after the start of the summaries: six logs and the second checkpoint block.
const AFTER_START_SUM: u32 = 7;

/// Segments of metadata and reserve below which fsck.f2fs does not open a volume; Linux is content with one less.
const RESERVED_LEAST: u64 = 9;

/// Whether a reserve is as large as Linux and fsck.f2fs require.
#[must_use]
pub fn enough_reserved(geo: &Geometry, reserved: u32) -> bool {
    reserved_and_metadata(geo, reserved) >= RESERVED_LEAST
}

fn reserved_and_metadata(geo: &Geometry, reserved: u32) -> u64 {
    let parts = [2, geo.segment_count_sit, geo.segment_count_nat, geo.segment_count_ssa, reserved];
    parts.into_iter().map(u64::from).sum()
}

/// Checks ranges and flags; whether the pack is good enough to go on with.
pub(crate) fn check(pack: &Pack, sb: &Superblock, sink: &mut Sink) -> bool {
    check_flags(pack, sb, sink);
    let mut rules = Rules::new(Kind::Checkpoint, Structure::Checkpoint, Unit::Block, pack.start.0);
    check_ends(pack, &mut rules);
    check_counts(pack, sb, &mut rules);
    let sized = check_bitmap_sizes(pack, sb, &mut rules);
    let usable = check_layout(pack, sb, &mut rules) && sized;
    sink.add_broken(None, rules);
    usable
}

fn check_flags(pack: &Pack, sb: &Superblock, sink: &mut Sink) {
    let mut rules = Rules::new(Kind::Checkpoint, Structure::Checkpoint, Unit::Block, pack.start.0);
    // Set in a guarded volume, so that Linux leaves its quota files alone.
    let hides = if sb.guarded { CpFlags::QUOTA_NEED_FSCK } else { CpFlags::empty() };
    let flags = [
        (Kind::Checkpoint, CpFlags::ERROR, "error flag: the file system stopped on an error"),
        (Kind::CheckpointFlag, CpFlags::FSCK, "flag: a full check is wanted"),
        (Kind::CheckpointFlag, CpFlags::QUOTA_NEED_FSCK, "flag: quota files may be inconsistent"),
        (Kind::CheckpointFlag, CpFlags::RESIZEFS, "flag: a resize was interrupted"),
    ];
    for (kind, flag, why) in flags {
        rules.of(kind).refuse(pack.flags.difference(hides).contains(flag), why);
    }
    sink.add_broken(None, rules);
}

fn check_ends(pack: &Pack, rules: &mut Rules) {
    if let (Some(first), Some(last)) = (pack.blocks.first(), pack.blocks.last()) {
        let differing = first.as_bytes().iter().zip(last.as_bytes()).filter(|(a, b)| a != b).count();
        rules.equal("bytes that differ between both ends", differing as u64, 0u64);
    }
}

fn check_counts(pack: &Pack, sb: &Superblock, rules: &mut Rules) {
    let (cp, geo) = (pack.cp(), &sb.geo);
    let ro = sb.features.contains(Features::RO);
    let meta = reserved_and_metadata(geo, cp.rsvd_segment_count.get());
    let segments = u64::from(geo.segment_count);
    rules.require(meta < segments, "metadata and reserved segments", meta, segments);
    let over = cp.overprov_segment_count.get();
    if !ro {
        rules.require(meta >= RESERVED_LEAST, "metadata and reserved segments", meta, RESERVED_LEAST);
        rules.require(over != 0, "overprov_segment_count", over, 1u64);
        rules.require(cp.rsvd_segment_count.get() != 0, "rsvd_segment_count", 0u64, 1u64);
    }
    let user = cp.user_block_count.get();
    let limit = geo.main_blocks().saturating_add(if ro { BLOCKS_PER_SEG.into() } else { 0 });
    rules.require(user > 0 && user < limit, "user_block_count", user, limit);
    let valid = cp.valid_block_count.get();
    rules.require(valid <= user, "valid_block_count", valid, user);
    let (nodes, nids) = (cp.valid_node_count.get(), geo.max_nid().saturating_sub(3));
    rules.require(nodes <= nids, "valid_node_count", nodes, nids);
    let next = cp.next_free_nid.get();
    rules.require(next < geo.max_nid(), "next_free_nid", next, geo.max_nid());
}

fn check_bitmap_sizes(pack: &Pack, sb: &Superblock, rules: &mut Rules) -> bool {
    let (cp, geo) = (pack.cp(), &sb.geo);
    let (sit, nat) = (geo.sit_bitmap_bytes() as u64, geo.nat_bitmap_bytes() as u64);
    let sized = rules.equal("sit_ver_bitmap_bytesize", cp.sit_ver_bitmap_bytesize.get(), sit);
    sized & rules.equal("nat_ver_bitmap_bytesize", cp.nat_ver_bitmap_bytesize.get(), nat)
}

fn check_layout(pack: &Pack, sb: &Superblock, rules: &mut Rules) -> bool {
    let (cp, geo) = (pack.cp(), &sb.geo);
    let mut usable = true;
    if pack.flags.contains(CpFlags::LARGE_NAT_BITMAP) {
        let offset = cp.checksum_offset.get();
        usable &= rules.equal("checksum_offset with a large NAT bitmap", offset, CHECKSUM_OFFSET_MIN);
    }
    if pack.flags.contains(CpFlags::NAT_BITS) {
        let need = geo.cp_payload.saturating_add(8).saturating_add(nat_bits_blocks(geo));
        rules.require(need < BLOCKS_PER_SEG, "blocks of a pack with nat_bits", need, BLOCKS_PER_SEG);
    }
    let (start, total) = (cp.cp_pack_start_sum.get(), cp.cp_pack_total_block_count.get());
    let first = geo.cp_payload.saturating_add(1);
    usable &= rules.require(start >= first, "cp_pack_start_sum", start, first);
    let last = BLOCKS_PER_SEG - AFTER_START_SUM;
    usable &= rules.require(start <= last, "cp_pack_start_sum", start, last);
    let orphans = pack.flags.contains(CpFlags::ORPHAN_PRESENT);
    let (blocks, least) = (start.saturating_sub(first), u32::from(orphans));
    // Those of a guarded volume are hidden from implementations that would free them.
    let fits = if orphans { blocks >= 1 } else { blocks == 0 || sb.guarded };
    usable &= rules.require(fits, "orphan blocks before the summaries", blocks, least);
    // Whatever is between the start of the summaries and the last block: 1 to 3 data and 0 or 3 node summaries.
    let node = if pack.has_node_summaries() { 3 } else { 0 };
    let data = i64::from(total) - i64::from(start) - 1 - node;
    let compact = pack.flags.contains(CpFlags::COMPACT_SUM);
    let fits = if compact { (1..=2).contains(&data) } else { data == 3 };
    let expected = i64::from(start) + 1 + node + if compact { 1 } else { 3 };
    usable & rules.require(fits, "cp_pack_total_block_count", total, expected.unsigned_abs())
}
