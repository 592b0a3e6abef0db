//! Numbers in the checkpoint block that a mount refuses when they are out of range.
use crate::evidence::Pack;
use crate::report::{Kind, Sink};
use segno_format::checkpoint::{CpFlags, nat_bits_blocks};
use segno_format::superblock::Superblock;
use segno_format::{BLOCKS_PER_SEG, BlockAddr, Corrupt, Features, Geometry, Structure};
use zerocopy::IntoBytes;

/// Blocks behind the start of the summaries: six logs and the second checkpoint block.
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
    check_flags(pack, sink);
    let mut damage = Damage { at: pack.start, found: Vec::new() };
    check_ends(pack, &mut damage);
    check_counts(pack, sb, &mut damage);
    let sized = check_bitmap_sizes(pack, sb, &mut damage);
    let usable = check_layout(pack, sb, &mut damage) && sized;
    damage.found.into_iter().for_each(|e| sink.add(Kind::Checkpoint, e));
    usable
}

struct Damage {
    at: BlockAddr,
    found: Vec<Corrupt>,
}

impl Damage {
    fn require(&mut self, ok: bool, why: &'static str, found: u64, expected: u64) -> bool {
        if !ok {
            self.found.push(Corrupt::block(Structure::Checkpoint, self.at.0.into(), why, found, expected));
        }
        ok
    }
}

fn check_flags(pack: &Pack, sink: &mut Sink) {
    let flag = |why| Corrupt::block(Structure::Checkpoint, pack.start.0.into(), why, 1, 0);
    if pack.flags.contains(CpFlags::ERROR) {
        sink.add(Kind::Checkpoint, flag("error flag: the file system stopped on an error"));
    }
    let wanted = [
        (CpFlags::FSCK, "flag: a full check is wanted"),
        (CpFlags::QUOTA_NEED_FSCK, "flag: quota files may be inconsistent"),
        (CpFlags::RESIZEFS, "flag: a resize was interrupted"),
    ];
    for (_, why) in wanted.into_iter().filter(|(f, _)| pack.flags.contains(*f)) {
        sink.add(Kind::CheckpointFlag, flag(why));
    }
}

fn check_ends(pack: &Pack, damage: &mut Damage) {
    if let (Some(first), Some(last)) = (pack.blocks.first(), pack.blocks.last()) {
        let differing = first.as_bytes().iter().zip(last.as_bytes()).filter(|(a, b)| a != b).count();
        damage.require(differing == 0, "bytes that differ between both ends", differing as u64, 0);
    }
}

fn check_counts(pack: &Pack, sb: &Superblock, damage: &mut Damage) {
    let (cp, geo) = (pack.cp(), &sb.geo);
    let ro = sb.features.contains(Features::RO);
    let meta = reserved_and_metadata(geo, cp.rsvd_segment_count.get());
    let segments = u64::from(geo.segment_count);
    damage.require(meta < segments, "metadata and reserved segments", meta, segments);
    let over = cp.overprov_segment_count.get();
    if !ro {
        damage.require(meta >= RESERVED_LEAST, "metadata and reserved segments", meta, RESERVED_LEAST);
        damage.require(over != 0, "overprov_segment_count", over.into(), 1);
        damage.require(cp.rsvd_segment_count.get() != 0, "rsvd_segment_count", 0, 1);
    }
    let user = cp.user_block_count.get();
    let limit = geo.main_blocks().saturating_add(if ro { BLOCKS_PER_SEG.into() } else { 0 });
    damage.require(user > 0 && user < limit, "user_block_count", user, limit);
    let valid = cp.valid_block_count.get();
    damage.require(valid <= user, "valid_block_count", valid, user);
    let (nodes, nids) = (cp.valid_node_count.get(), geo.max_nid().saturating_sub(3));
    damage.require(nodes <= nids, "valid_node_count", nodes.into(), nids.into());
    let next = cp.next_free_nid.get();
    damage.require(next < geo.max_nid(), "next_free_nid", next.into(), geo.max_nid().into());
}

fn check_bitmap_sizes(pack: &Pack, sb: &Superblock, damage: &mut Damage) -> bool {
    let (cp, geo) = (pack.cp(), &sb.geo);
    let (sit, nat) = (geo.sit_bitmap_bytes() as u64, geo.nat_bitmap_bytes() as u64);
    let found = u64::from(cp.sit_ver_bitmap_bytesize.get());
    let sized = damage.require(found == sit, "sit_ver_bitmap_bytesize", found, sit);
    let found = u64::from(cp.nat_ver_bitmap_bytesize.get());
    sized & damage.require(found == nat, "nat_ver_bitmap_bytesize", found, nat)
}

fn check_layout(pack: &Pack, sb: &Superblock, damage: &mut Damage) -> bool {
    let (cp, geo) = (pack.cp(), &sb.geo);
    let mut usable = true;
    if pack.flags.contains(CpFlags::LARGE_NAT_BITMAP) {
        let offset = cp.checksum_offset.get();
        usable &=
            damage.require(offset == 192, "checksum_offset with a large NAT bitmap", offset.into(), 192);
    }
    if pack.flags.contains(CpFlags::NAT_BITS) {
        let need = geo.cp_payload.saturating_add(8).saturating_add(nat_bits_blocks(geo));
        damage.require(
            need < BLOCKS_PER_SEG,
            "blocks of a pack with nat_bits",
            need.into(),
            BLOCKS_PER_SEG.into(),
        );
    }
    let (start, total) = (cp.cp_pack_start_sum.get(), cp.cp_pack_total_block_count.get());
    let first = geo.cp_payload.saturating_add(1);
    usable &= damage.require(start >= first, "cp_pack_start_sum", start.into(), first.into());
    let last = BLOCKS_PER_SEG - AFTER_START_SUM;
    usable &= damage.require(start <= last, "cp_pack_start_sum", start.into(), last.into());
    let orphans = pack.flags.contains(CpFlags::ORPHAN_PRESENT);
    let (blocks, least) = (start.saturating_sub(first), u32::from(orphans));
    let fits = if orphans { blocks >= 1 } else { blocks == 0 };
    usable &= damage.require(fits, "orphan blocks before the summaries", blocks.into(), least.into());
    // Whatever is between the start of the summaries and the last block: 1 to 3 data and 0 or 3 node summaries.
    let node = if pack.has_node_summaries() { 3 } else { 0 };
    let data = i64::from(total) - i64::from(start) - 1 - node;
    let compact = pack.flags.contains(CpFlags::COMPACT_SUM);
    let fits = if compact { (1..=2).contains(&data) } else { data == 3 };
    let expected = i64::from(start) + 1 + node + if compact { 1 } else { 3 };
    usable & damage.require(fits, "cp_pack_total_block_count", total.into(), expected.unsigned_abs())
}
