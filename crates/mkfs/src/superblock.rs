//! The superblock of a fresh volume.
use crate::layout::CKPT_SEGMENTS;
use crate::{Layout, MkfsError, MkfsOptions};
use segno_format::superblock::{RawDevice, RawSuperblock, SB_CRC_OFFSET, Superblock};
use segno_format::{F2FS_MAGIC, Features, Geometry, Ino};
use zerocopy::FromZeros;
use zerocopy::little_endian::{U16, U32, U64};

const LOG_BLOCK_SIZE: u32 = 12;
const LOG_BLOCKS_PER_SEG: u32 = 9;
/// The f2fs-tools release whose format this is.
const MINOR_VERSION: u16 = 15;
/// UTF-8 of Unicode 12.1, the only encoding there is.
const ENCODING_UTF8_12_1: u16 = 1;

/// The superblock of a volume with this layout, checked as a reader would check it. `quota_inos` are the
/// inodes of the quota files of users, groups and projects.
pub fn superblock(
    layout: &Layout,
    opts: &MkfsOptions,
    uuid: [u8; 16],
    paths: &[&str],
    quota_inos: [Option<Ino>; 3],
) -> Result<Superblock, MkfsError> {
    let mut sb = RawSuperblock::new_zeroed();
    put_identity(&mut sb, opts, uuid);
    put_geometry(&mut sb, &layout.geo);
    put_extensions(&mut sb, opts);
    put_devices(&mut sb, layout, paths)?;
    sb.qf_ino = quota_inos.map(|ino| U32::new(ino.map_or(0, |n| n.0)));
    sb.seal();
    Ok(sb.parse(0)?)
}

fn put_identity(sb: &mut RawSuperblock, opts: &MkfsOptions, uuid: [u8; 16]) {
    let log_sector = opts.sector_size.ilog2();
    sb.magic = U32::new(F2FS_MAGIC);
    sb.major_ver = U16::new(1);
    sb.minor_ver = U16::new(MINOR_VERSION);
    sb.log_sectorsize = U32::new(log_sector);
    sb.log_sectors_per_block = U32::new(LOG_BLOCK_SIZE.saturating_sub(log_sector));
    sb.log_blocksize = U32::new(LOG_BLOCK_SIZE);
    sb.log_blocks_per_seg = U32::new(LOG_BLOCKS_PER_SEG);
    sb.uuid = uuid;
    for (dst, unit) in sb.volume_name.iter_mut().zip(opts.label.encode_utf16()) {
        *dst = U16::new(unit);
    }
    put_text(&mut sb.version, VERSION);
    put_text(&mut sb.init_version, VERSION);
    sb.feature = U32::new(opts.all_features().bits());
    if opts.has(Features::SB_CHKSUM) {
        sb.checksum_offset = U32::new(SB_CRC_OFFSET);
    }
    if opts.has(Features::CASEFOLD) {
        sb.s_encoding = U16::new(ENCODING_UTF8_12_1);
        sb.s_encoding_flags = U16::new(opts.casefold.bits());
    }
    [sb.root_ino, sb.node_ino, sb.meta_ino] = [Ino::ROOT, Ino::NODE, Ino::META].map(|n| U32::new(n.0));
}

/// Name and version of the formatter, in the superblock's text fields.
const VERSION: &str = concat!("segno-mkfs ", env!("CARGO_PKG_VERSION"));

fn put_geometry(sb: &mut RawSuperblock, geo: &Geometry) {
    sb.segs_per_sec = U32::new(geo.segs_per_sec);
    sb.secs_per_zone = U32::new(geo.secs_per_zone);
    sb.block_count = U64::new(geo.block_count);
    sb.section_count = U32::new(geo.section_count);
    sb.segment_count = U32::new(geo.segment_count);
    sb.segment_count_ckpt = U32::new(CKPT_SEGMENTS);
    sb.segment_count_sit = U32::new(geo.segment_count_sit);
    sb.segment_count_nat = U32::new(geo.segment_count_nat);
    sb.segment_count_ssa = U32::new(geo.segment_count_ssa);
    sb.segment_count_main = U32::new(geo.segment_count_main);
    sb.segment0_blkaddr = U32::new(geo.segment0_blkaddr);
    sb.cp_blkaddr = U32::new(geo.cp_blkaddr);
    sb.sit_blkaddr = U32::new(geo.sit_blkaddr);
    sb.nat_blkaddr = U32::new(geo.nat_blkaddr);
    sb.ssa_blkaddr = U32::new(geo.ssa_blkaddr);
    sb.main_blkaddr = U32::new(geo.main_blkaddr);
    sb.cp_payload = U32::new(geo.cp_payload);
}

/// Cold extensions first, hot ones directly after; the lengths have been checked with the options.
fn put_extensions(sb: &mut RawSuperblock, opts: &MkfsOptions) {
    sb.extension_count = U32::new(opts.cold_extensions.len() as u32);
    sb.hot_ext_count = opts.hot_extensions.len() as u8;
    let all = opts.cold_extensions.iter().chain(&opts.hot_extensions);
    for (dst, text) in sb.extension_list.iter_mut().zip(all) {
        put_text(dst, text);
    }
}

/// A single device is not listed.
fn put_devices(sb: &mut RawSuperblock, layout: &Layout, paths: &[&str]) -> Result<(), MkfsError> {
    if paths.len() < 2 {
        return Ok(());
    }
    for ((dst, path), &segments) in sb.devs.iter_mut().zip(paths).zip(&layout.device_segments) {
        let room = dst.path.len();
        if path.is_empty() || path.len() >= room || path.contains('\0') {
            return Err(MkfsError::Options(format!(
                "device path {path:?} must have 1 to 63 bytes to be recorded in a volume of several devices: \
                 use another path"
            )));
        }
        *dst = RawDevice { path: [0; 64], total_segments: U32::new(segments) };
        put_text(&mut dst.path, path);
    }
    Ok(())
}

fn put_text(dst: &mut [u8], text: &str) {
    for (d, s) in dst.iter_mut().zip(text.bytes()) {
        *d = s;
    }
}
