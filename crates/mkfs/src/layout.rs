//! Sizes and places of all areas, from device sizes and options alone.
use crate::cursegs::{self, CurSegs};
use crate::{MkfsError, MkfsOptions, Reserve};
use segno_format::checkpoint::{CHECKSUM_OFFSET_MAX, CHECKSUM_OFFSET_MIN};
use segno_format::geometry::{NAT_PER_BLOCK, SIT_PER_BLOCK};
use segno_format::sit::LogType;
use segno_format::superblock::{MAX_DEVICES, MAX_SEGMENTS};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, BlockAddr, Features, Geometry, SegNo};

/// Segments of the checkpoint area, one for each pack.
pub(crate) const CKPT_SEGMENTS: u32 = 2;
/// Bytes in the checkpoint block for the two version bitmaps.
const BITMAP_ROOM: u32 = CHECKSUM_OFFSET_MAX - CHECKSUM_OFFSET_MIN;
/// Bytes of a version bitmap for each segment of one copy.
const BITMAP_PER_SEG: u32 = BLOCKS_PER_SEG / 8;
/// Bytes of the two superblocks and the space in front of them.
const SUPERBLOCK_BYTES: u64 = 2 * BLOCK_SIZE as u64;
/// Share of NAT segments kept with `large_nat_bitmap`, in percent of a NAT with a node for every block.
const LARGE_NAT_PERCENT: u32 = 20;

/// Where everything will be.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Sizes and places of all areas.
    pub geo: Geometry,
    /// Segments on each device.
    pub device_segments: Vec<u32>,
    /// Room kept for cleaning.
    pub reserve: Reserve,
    cursegs: CurSegs,
}

impl Layout {
    /// The segment where a log starts.
    #[must_use]
    pub fn curseg(&self, log: LogType) -> SegNo {
        self.cursegs.get(log.idx()).copied().unwrap_or(SegNo(0))
    }

    /// First block of that segment.
    #[must_use]
    pub fn curseg_start(&self, log: LogType) -> BlockAddr {
        self.geo.seg_start(self.curseg(log))
    }
}

/// Lays out a volume on devices of these sizes, in blocks.
pub fn plan(sizes: &[u64], opts: &MkfsOptions) -> Result<Layout, MkfsError> {
    opts.validate()?;
    plan_within(&opts.usable(sizes)?, opts)
}

/// Lays it out on these parts of the devices.
pub(crate) fn plan_within(sizes: &[u64], opts: &MkfsOptions) -> Result<Layout, MkfsError> {
    if !(1..=MAX_DEVICES).contains(&sizes.len()) {
        return Err(MkfsError::DeviceCount { count: sizes.len() });
    }
    let ro = opts.has(Features::RO);
    let segs_per_zone = opts.segs_per_zone();
    let segment0 = segment0(sizes, opts)?;
    let device_segments = device_segments(sizes, segment0, segs_per_zone)?;
    let total = device_segments.iter().map(|&n| u64::from(n)).sum();
    let segments = u32::try_from(total)
        .ok()
        .filter(|_| fits(segment0, total))
        .ok_or(MkfsError::TooLarge { segments: total })?;

    let areas = Areas::of(segments, opts)?;
    let meta_zones = areas.meta_segments() / segs_per_zone;
    let zones = (segments / segs_per_zone).saturating_sub(meta_zones);
    let logs = if ro { 2 } else { 6 };
    if zones <= logs {
        return Err(MkfsError::TooFewZones { zones: zones.into(), needed: logs.into() });
    }
    // No sum or product below overflows: the end of the volume has an address.
    let section_count = zones * opts.secs_per_zone;
    let main = section_count * opts.segs_per_sec;
    let reserve = if ro { Reserve::none(main) } else { Reserve::of(main, opts)? };
    let blocks = |segs: u32| segs * BLOCKS_PER_SEG;
    let sit_blkaddr = segment0 + blocks(CKPT_SEGMENTS);
    let nat_blkaddr = sit_blkaddr + blocks(areas.sit);
    let ssa_blkaddr = nat_blkaddr + blocks(areas.nat);
    let geo = Geometry {
        block_size: BLOCK_SIZE as u32,
        block_count: sizes.iter().sum(),
        segs_per_sec: opts.segs_per_sec,
        secs_per_zone: opts.secs_per_zone,
        section_count,
        segment_count: segments,
        segment_count_sit: areas.sit,
        segment_count_nat: areas.nat,
        segment_count_ssa: areas.ssa,
        segment_count_main: main,
        segment0_blkaddr: segment0,
        cp_blkaddr: segment0,
        sit_blkaddr,
        nat_blkaddr,
        ssa_blkaddr,
        main_blkaddr: ssa_blkaddr + blocks(areas.ssa),
        cp_payload: areas.cp_payload,
        has_ssa: !ro,
        packed_ssa: false,
    };
    let cursegs = if ro { cursegs::read_only() } else { cursegs::spread(zones, segs_per_zone) };
    Ok(Layout { geo, device_segments, reserve, cursegs })
}

/// Whether all block addresses are below the marker addresses.
fn fits(segment0: u32, segments: u64) -> bool {
    let end = segments.saturating_mul(BLOCKS_PER_SEG.into()).saturating_add(segment0.into());
    segments <= MAX_SEGMENTS.into() && end <= BlockAddr::COMPRESS.0.into()
}

/// First block after the superblocks at which a zone starts. Zones are counted from the start of the disk.
fn segment0(sizes: &[u64], opts: &MkfsOptions) -> Result<u32, MkfsError> {
    let zone_blocks = u64::from(opts.segs_per_zone()) * u64::from(BLOCKS_PER_SEG);
    if opts.has(Features::RO) {
        return Ok((SUPERBLOCK_BYTES / BLOCK_SIZE as u64) as u32);
    }
    let zone_bytes = zone_blocks.saturating_mul(BLOCK_SIZE as u64);
    let start = opts.partition_start % zone_bytes;
    let offset = (start + SUPERBLOCK_BYTES).next_multiple_of(zone_bytes) - start;
    u32::try_from(offset / BLOCK_SIZE as u64).map_err(|_| MkfsError::DeviceTooSmall {
        number: 0,
        blocks: sizes.first().copied().unwrap_or(0),
        zone_blocks,
    })
}

/// Whole zones of each device. Each must have one: a device without segments would end the list in the
/// superblock early.
fn device_segments(sizes: &[u64], segment0: u32, segs_per_zone: u32) -> Result<Vec<u32>, MkfsError> {
    let zone_blocks = u64::from(segs_per_zone) * u64::from(BLOCKS_PER_SEG);
    let mut out = Vec::with_capacity(sizes.len());
    for (number, &blocks) in sizes.iter().enumerate() {
        let lead = if number == 0 { u64::from(segment0) } else { 0 };
        let zones = blocks.saturating_sub(lead) / zone_blocks;
        if zones == 0 {
            return Err(MkfsError::DeviceTooSmall { number, blocks, zone_blocks });
        }
        let segments = zones.saturating_mul(segs_per_zone.into());
        out.push(u32::try_from(segments).map_err(|_| MkfsError::TooLarge { segments })?);
    }
    Ok(out)
}

/// Segments of the metadata areas after the checkpoint.
struct Areas {
    sit: u32,
    nat: u32,
    ssa: u32,
    cp_payload: u32,
}

impl Areas {
    fn of(segments: u32, opts: &MkfsOptions) -> Result<Self, MkfsError> {
        let sit_copy = segments.div_ceil(SIT_PER_BLOCK).div_ceil(BLOCKS_PER_SEG);
        let behind_sit = remaining(segments, CKPT_SEGMENTS + 2 * sit_copy)?;
        // Enough for a node per block, in 64 bits because blocks reach 2^32.
        let nat_blocks = (u64::from(behind_sit) * u64::from(BLOCKS_PER_SEG)).div_ceil(NAT_PER_BLOCK.into());
        let nat_full = nat_blocks.div_ceil(BLOCKS_PER_SEG.into()) as u32;
        let (nat_copy, cp_payload) = nat_and_payload(nat_full, sit_copy, opts.large_nat_bitmap);
        let behind_nat = remaining(behind_sit, 2 * nat_copy)?;
        let ssa = if opts.has(Features::RO) { 0 } else { behind_nat.div_ceil(BLOCKS_PER_SEG) };
        let mut areas = Self { sit: 2 * sit_copy, nat: 2 * nat_copy, ssa, cp_payload };
        let unpadded = areas.meta_segments();
        areas.ssa += unpadded.next_multiple_of(opts.segs_per_zone()) - unpadded;
        Ok(areas)
    }

    fn meta_segments(&self) -> u32 {
        CKPT_SEGMENTS + self.sit + self.nat + self.ssa
    }
}

fn remaining(segments: u32, taken: u32) -> Result<u32, MkfsError> {
    segments.checked_sub(taken).ok_or(MkfsError::TooFewZones { zones: 0, needed: 6 })
}

/// Segments of one NAT copy, and checkpoint blocks for bitmaps that do not fit the first one.
fn nat_and_payload(nat_full: u32, sit_copy: u32, large_nat_bitmap: bool) -> (u32, u32) {
    let sit_bitmap = sit_copy * BITMAP_PER_SEG;
    if large_nat_bitmap {
        let nat = (nat_full * LARGE_NAT_PERCENT / 100).max(1);
        let over = (sit_bitmap + nat * BITMAP_PER_SEG).saturating_sub(BITMAP_ROOM);
        return (nat, over.div_ceil(BLOCK_SIZE as u32));
    }
    // The NAT bitmap must fit the checkpoint block; the SIT bitmap moves out when nothing would be left for it.
    let (nat_room, payload) = if sit_bitmap > BITMAP_ROOM - BITMAP_PER_SEG {
        (BITMAP_ROOM, sit_bitmap.div_ceil(BLOCK_SIZE as u32))
    } else {
        (BITMAP_ROOM - sit_bitmap, 0)
    };
    (nat_full.min(nat_room / BITMAP_PER_SEG), payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 256;
    const GIB: u64 = 1024 * MIB;

    struct Vector {
        blocks: u64,
        opts: MkfsOptions,
        /// segment_count, SIT, NAT, SSA, main, payload.
        areas: [u32; 6],
        /// rsvd, overprov.
        reserve: Option<[u32; 2]>,
        user_block_count: u64,
    }

    fn vector(
        blocks: u64,
        opts: MkfsOptions,
        areas: [u32; 6],
        reserve: Option<[u32; 2]>,
        users: u64,
    ) -> Vector {
        Vector { blocks, opts, areas, reserve, user_block_count: users }
    }

    fn zones(segs_per_sec: u32, secs_per_zone: u32) -> MkfsOptions {
        MkfsOptions { segs_per_sec, secs_per_zone, ..MkfsOptions::default() }
    }

    fn large_nat() -> MkfsOptions {
        MkfsOptions { large_nat_bitmap: true, ..MkfsOptions::default() }
    }

    /// Volumes made by mkfs.f2fs 1.15.
    fn vectors() -> Vec<Vector> {
        vec![
            vector(60 * MIB, zones(1, 1), [29, 2, 2, 1, 22, 0], Some([13, 16]), 3072),
            vector(80 * MIB, zones(1, 1), [39, 2, 2, 1, 32, 0], Some([14, 19]), 6656),
            vector(256 * MIB, zones(1, 1), [127, 2, 2, 1, 120, 0], Some([21, 35]), 43520),
            vector(512 * MIB, zones(1, 1), [255, 2, 2, 1, 248, 0], Some([28, 50]), 101_376),
            vector(GIB, zones(4, 2), [504, 2, 4, 8, 488, 0], Some([112, 149]), 173_568),
            vector(300 * MIB, large_nat(), [149, 2, 2, 1, 142, 0], Some([28, 39]), 52736),
            vector(10 * GIB, zones(1, 1), [5119, 2, 24, 10, 5081, 0], Some([108, 206]), 2_496_000),
            vector(33 * GIB, zones(3, 5), [16875, 2, 76, 40, 16755, 0], None, 0),
            vector(64 * GIB, large_nat(), [32767, 4, 28, 64, 32669, 0], Some([264, 516]), 16_462_336),
            vector(200 * GIB, zones(1, 1), [102_399, 8, 112, 200, 102_077, 0], Some([462, 909]), 51_798_016),
            vector(
                400 * GIB,
                large_nat(),
                [204_799, 16, 180, 400, 204_201, 1],
                Some([653, 1283]),
                103_894_016,
            ),
            vector(999 * GIB, zones(7, 1), [511_476, 38, 82, 1005, 510_349, 0], None, 0),
            vector(
                3500 * GIB,
                zones(1, 1),
                [1_791_999, 128, 120, 3500, 1_788_249, 1],
                Some([1826, 3791]),
                913_642_496,
            ),
        ]
    }

    #[test]
    fn sizing_vectors() {
        for v in vectors() {
            let l = plan(&[v.blocks], &v.opts).unwrap();
            let context = format!("{} blocks, {}x{}", v.blocks, v.opts.segs_per_sec, v.opts.secs_per_zone);
            let areas = [
                l.geo.segment_count,
                l.geo.segment_count_sit,
                l.geo.segment_count_nat,
                l.geo.segment_count_ssa,
                l.geo.segment_count_main,
                l.geo.cp_payload,
            ];
            assert_eq!(areas, v.areas, "{context}");
            assert_eq!(l.geo.segment0_blkaddr, v.opts.segs_per_zone() * 512, "{context}");
            // mkfs.f2fs 1.15 gives the other sizes a reserve for segments that they do not have.
            if let Some(reserve) = v.reserve {
                assert_eq!(
                    [l.reserve.rsvd_segment_count, l.reserve.overprov_segment_count],
                    reserve,
                    "{context}"
                );
                assert_eq!(l.reserve.user_block_count, v.user_block_count, "{context}");
            }
        }
    }

    #[test]
    fn logs_start_in_their_zones() {
        let l = plan(&[256 * MIB], &zones(1, 1)).unwrap();
        assert_eq!(LogType::ALL.map(|log| l.curseg(log).0), [3, 59, 29, 0, 1, 2]);
        assert_eq!(l.curseg_start(LogType::HotData).0, l.geo.main_blkaddr + 3 * 512);
        // The smallest main area: quarter and half would be among the first four.
        let l = plan(&[52 * MIB], &zones(1, 1)).unwrap();
        assert_eq!(l.geo.segment_count_main, 18);
        assert_eq!(LogType::ALL.map(|log| l.curseg(log).0), [3, 8, 4, 0, 1, 2]);
        let l = plan(&[GIB], &zones(4, 2)).unwrap();
        assert_eq!(LogType::ALL.map(|log| l.curseg(log).0), [24, 29 * 8, 14 * 8, 0, 8, 16]);
    }

    #[test]
    fn zones_are_aligned_on_the_disk() {
        let at = |partition_start| {
            let opts = MkfsOptions { partition_start, ..zones(2, 1) };
            plan(&[GIB], &opts).unwrap().geo.segment0_blkaddr
        };
        assert_eq!(at(0), 1024);
        assert_eq!(at(1 << 20), 768);
        assert_eq!(at((4 << 20) - 8192), 2);
        assert_eq!(at((4 << 20) - 4096), 1025);
        assert_eq!(at(u64::MAX), 1024);
    }

    #[test]
    fn whole_zones_of_every_device_count() {
        let l = plan(&[64 * MIB + 7, 33 * MIB, 129 * MIB], &zones(2, 1)).unwrap();
        assert_eq!(l.device_segments, [30, 16, 64]);
        assert_eq!((l.geo.segment_count, l.geo.block_count), (110, 226 * MIB + 7));
        let e = plan(&[64 * MIB, 3 * MIB], &zones(2, 1)).unwrap_err();
        assert!(matches!(e, MkfsError::DeviceTooSmall { number: 1, blocks: 768, zone_blocks: 1024 }), "{e}");
    }

    /// No size and no option may overflow, and whatever is accepted must hold together.
    #[test]
    fn extremes_are_refused_or_consistent() {
        let sizes = [0, 1, 2, 511, 1024, 20 * MIB, GIB, 16 * 1024 * GIB - 512, 16 * 1024 * GIB, u64::MAX];
        let counts = [1, 2, 3, 1000, 65536, MAX_SEGMENTS];
        for blocks in sizes {
            for (segs, secs) in counts.iter().flat_map(|&a| counts.map(|b| (a, b))) {
                for large_nat_bitmap in [false, true] {
                    let opts = MkfsOptions { large_nat_bitmap, ..zones(segs, secs) };
                    let Ok(l) = plan(&[blocks], &opts) else { continue };
                    assert_eq!(l.geo.segment_count_main, l.geo.section_count * segs);
                    let end = u64::from(l.geo.main_blkaddr) + u64::from(l.geo.segment_count_main) * 512;
                    assert!(
                        end <= blocks && end < u64::from(u32::MAX),
                        "{blocks} blocks, {segs}x{secs}: {l:?}"
                    );
                }
            }
        }
        assert!(plan(&[16 * 1024 * GIB - 512], &zones(1, 1)).is_ok());
        let e = plan(&[16 * 1024 * GIB], &zones(1, 1)).unwrap_err();
        assert!(matches!(e, MkfsError::TooLarge { segments: 8_388_607 }), "{e}");
    }

    #[test]
    fn device_counts_are_limited() {
        for n in [0, 9] {
            let e = plan(&vec![GIB; n], &zones(1, 1)).unwrap_err();
            assert!(matches!(e, MkfsError::DeviceCount { count } if count == n), "{e}");
        }
        assert!(plan(&[GIB; 8], &zones(1, 1)).is_ok());
    }
}
