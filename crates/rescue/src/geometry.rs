//! Addresses of the areas when no superblock is left: from a checkpoint pack, or from the rules by which mkfs
//! lays out a volume of that size. A guess is accepted only if summaries and logs then agree with the nodes
//! that were found.
use crate::Reader;
use crate::versions::Versions;
use segno_format::checkpoint::RawCheckpoint;
use segno_format::summary::RawSummaryBlock;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, BlockAddr, Geometry};
use segno_layout::{Packs, certain};

/// Zone sizes in segments that are tried.
const ZONES: [u32; 14] = [1, 2, 3, 4, 5, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
/// Nodes whose summaries are compared.
const SAMPLE: usize = 512;
const CKPT_SEGMENTS: u32 = 2;
const SIT_PER_BLOCK: u64 = 55;
const NAT_PER_BLOCK: u64 = 455;
/// Bytes for the version bitmaps in the checkpoint block.
const BITMAP_ROOM: u32 = 3900;
const BITMAP_ROOM_SIT: u32 = 3836;
/// Weight of a valid pack in a score: more than all logs together.
const PACK: usize = 32;

/// Sizes of the areas, in segments.
#[derive(Clone, Copy)]
struct Areas {
    segment0: u32,
    sit: u32,
    nat: u32,
    ssa: u32,
    main: u32,
    cp_payload: u32,
}

/// The layout that fits most of the nodes found; `checkpoints` are addresses of checkpoint blocks.
pub(crate) fn guess(reader: &Reader<'_>, nodes: &Versions, checkpoints: &[u32]) -> Option<Geometry> {
    let mut best: Option<(usize, Geometry)> = None;
    for areas in from_packs(reader, checkpoints).into_iter().chain(from_size(reader)) {
        let Some(geo) = areas.geometry(reader) else { continue };
        let score = score(reader, nodes, &geo);
        if score > 0 && best.as_ref().is_none_or(|(s, _)| score > *s) {
            best = Some((score, geo));
        }
    }
    best.map(|(_, geo)| geo)
}

/// Packs are one segment apart, and the sizes of SIT and NAT follow from their bitmaps.
fn from_packs(reader: &Reader<'_>, checkpoints: &[u32]) -> Vec<Areas> {
    let mut out = Vec::new();
    for &at in checkpoints {
        let Some(block) = reader.block(BlockAddr(at)) else { continue };
        let cp: &RawCheckpoint = block.view();
        let end = at.saturating_add(cp.cp_pack_total_block_count.get()).saturating_sub(1);
        if !checkpoints.contains(&end) {
            continue;
        }
        let segs = |bytes: u32| (bytes / (BLOCKS_PER_SEG / 8)).saturating_mul(2);
        let (sit, nat) = (segs(cp.sit_ver_bitmap_bytesize.get()), segs(cp.nat_ver_bitmap_bytesize.get()));
        let user = u32::try_from(cp.user_block_count.get() / u64::from(BLOCKS_PER_SEG)).unwrap_or(u32::MAX);
        let over = cp.overprov_segment_count.get();
        let main = user.saturating_add(over);
        let cp_payload = payload(sit, nat).unwrap_or_default();
        for segment0 in [Some(at), at.checked_sub(BLOCKS_PER_SEG)].into_iter().flatten() {
            for zone in ZONES {
                let ssa = if over == 0 { 0 } else { ssa_segments(sit, nat, main, zone) };
                out.push(Areas { segment0, sit, nat, ssa, main, cp_payload });
            }
        }
    }
    out
}

/// Blocks after the checkpoint block that hold the SIT bitmap; `None` if the NAT bitmap does not fit.
fn payload(sit: u32, nat: u32) -> Option<u32> {
    let (sit, nat) = (sit / 2 * (BLOCKS_PER_SEG / 8), nat / 2 * (BLOCKS_PER_SEG / 8));
    match sit > BITMAP_ROOM_SIT {
        true => Some(sit.div_ceil(4096)),
        false => (sit + nat <= BITMAP_ROOM).then_some(0),
    }
}

fn ssa_segments(sit: u32, nat: u32, main: u32, zone: u32) -> u32 {
    let mut ssa = main.div_ceil(BLOCKS_PER_SEG);
    // The area counts itself among the segments that may need a summary.
    ssa = main.saturating_add(ssa).div_ceil(BLOCKS_PER_SEG);
    let all = CKPT_SEGMENTS.saturating_add(sit).saturating_add(nat).saturating_add(ssa);
    ssa.saturating_add(all.next_multiple_of(zone) - all)
}

/// Layouts that mkfs, without options, makes on a device of this size.
fn from_size(reader: &Reader<'_>) -> Vec<Areas> {
    let blocks = reader.end();
    let start = u32::try_from(reader.base()).unwrap_or(0);
    let mut out = Vec::new();
    for zone in ZONES {
        let zone_blocks = zone.saturating_mul(BLOCKS_PER_SEG);
        let aligned = start.saturating_add(2).next_multiple_of(zone_blocks).saturating_sub(start);
        for segment0 in [aligned, zone_blocks] {
            let segments = blocks.saturating_sub(segment0) / BLOCKS_PER_SEG / zone * zone;
            let sit = u64::from(segments).div_ceil(SIT_PER_BLOCK).div_ceil(u64::from(BLOCKS_PER_SEG)) as u32;
            let Some(rest) = segments.checked_sub(CKPT_SEGMENTS + 2 * sit) else { continue };
            let nat_blocks = (u64::from(rest) * u64::from(BLOCKS_PER_SEG)).div_ceil(NAT_PER_BLOCK);
            let bitmap = sit * (BLOCKS_PER_SEG / 8);
            let room = if bitmap > BITMAP_ROOM_SIT { BITMAP_ROOM } else { BITMAP_ROOM - bitmap };
            let nat = (nat_blocks.div_ceil(u64::from(BLOCKS_PER_SEG)) as u32).min(room * 8 / BLOCKS_PER_SEG);
            let (sit, nat) = (2 * sit, 2 * nat);
            let Some(rest) = segments.checked_sub(CKPT_SEGMENTS + sit + nat) else { continue };
            let ssa = rest.div_ceil(BLOCKS_PER_SEG);
            let front = CKPT_SEGMENTS + sit + nat + ssa;
            let ssa = ssa + front.next_multiple_of(zone) - front;
            let main = segments.saturating_sub(CKPT_SEGMENTS + sit + nat + ssa);
            let cp_payload = payload(sit, nat).unwrap_or_default();
            out.push(Areas { segment0, sit, nat, ssa, main, cp_payload });
        }
    }
    out
}

impl Areas {
    fn geometry(&self, reader: &Reader<'_>) -> Option<Geometry> {
        let after = |at: u32, segs: u32| at.checked_add(segs.checked_mul(BLOCKS_PER_SEG)?);
        let cp_blkaddr = self.segment0;
        let sit_blkaddr = after(cp_blkaddr, CKPT_SEGMENTS)?;
        let nat_blkaddr = after(sit_blkaddr, self.sit)?;
        let ssa_blkaddr = after(nat_blkaddr, self.nat)?;
        let main_blkaddr = after(ssa_blkaddr, self.ssa)?;
        let end = after(main_blkaddr, self.main)?;
        let sit_entries = u64::from(self.sit / 2) * u64::from(BLOCKS_PER_SEG) * SIT_PER_BLOCK;
        if self.main == 0 || self.nat == 0 || sit_entries < self.main.into() || main_blkaddr >= reader.end() {
            return None;
        }
        Some(Geometry {
            block_size: BLOCK_SIZE as u32,
            packed_ssa: false,
            segs_per_sec: 1,
            secs_per_zone: 1,
            section_count: self.main,
            segment_count: end.saturating_sub(self.segment0) / BLOCKS_PER_SEG,
            segment_count_sit: self.sit,
            segment_count_nat: self.nat,
            segment_count_ssa: self.ssa,
            segment_count_main: self.main,
            segment0_blkaddr: self.segment0,
            cp_blkaddr,
            sit_blkaddr,
            nat_blkaddr,
            ssa_blkaddr,
            main_blkaddr,
            cp_payload: self.cp_payload,
            block_count: end.into(),
            has_ssa: self.ssa > 0,
        })
    }
}

/// Counts nodes whose summary names them, valid packs, and logs whose end matches their last node. The score
/// is 0 if a node lies before the main area or if only packs fit.
fn score(reader: &Reader<'_>, nodes: &Versions, geo: &Geometry) -> usize {
    let all = nodes.all();
    if all.first().is_some_and(|n| n.addr < geo.main_blkaddr) {
        return 0;
    }
    let step = (all.len() / SAMPLE).max(1);
    let named = all.iter().step_by(step).filter(|n| {
        let Some((seg, off)) = geo.seg_of(n.place()).filter(|_| geo.has_ssa) else { return false };
        let entry = |b: &segno_format::Block| {
            b.view::<RawSummaryBlock>().entries.get(off as usize).map(|e| e.nid.get())
        };
        reader.block(geo.ssa_addr(seg)).as_ref().and_then(entry) == Some(n.nid)
    });
    let packs = certain(Packs::load(reader, geo));
    let valid = packs.0.iter().filter(|p| p.is_ok()).count();
    match named.count() + logs(packs, nodes, geo) {
        0 => 0,
        fits => fits + PACK * valid,
    }
}

/// The positions of the node logs are where the last node of each log points.
fn logs(packs: Packs, nodes: &Versions, geo: &Geometry) -> usize {
    let (Some(pack), _) = packs.into_ordered() else { return 0 };
    let node_logs = segno_format::sit::LogType::ALL.into_iter().filter(|l| l.is_node());
    let ends = node_logs.filter_map(|log| pack.next_of(log, geo));
    let before = |addr: BlockAddr| nodes.at_addr(BlockAddr(addr.0.saturating_sub(1)));
    8 * ends.filter(|&a| before(a).is_some_and(|n| n.next == a.0 || !n.in_log())).count()
}
