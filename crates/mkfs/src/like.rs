//! Options that format a volume as an existing one was formatted.
use crate::options::CasefoldFlags;
use crate::{MkfsError, MkfsOptions, plan};
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, Features};

impl MkfsOptions {
    /// Options for a volume with the geometry, reserve, features, label, id and extension lists of this one,
    /// on a device of `device_blocks` blocks. The owner of the root and time stamps are in neither superblock
    /// nor checkpoint, so they keep their defaults.
    pub fn like(sb: &Superblock, cp: &RawCheckpoint, device_blocks: u64) -> Result<Self, MkfsError> {
        let raw = &sb.raw;
        let (cold, hot) = (texts(&sb.extensions(false)), texts(&sb.extensions(true)));
        let encoding = raw.s_encoding_flags.get();
        let mut options = Self {
            label: sb.label(),
            features: sb.features.difference(Features::BLKZONED),
            zoned: sb.features.contains(Features::BLKZONED),
            segs_per_sec: sb.geo.segs_per_sec,
            secs_per_zone: sb.geo.secs_per_zone,
            large_nat_bitmap: cp.flags().contains(CpFlags::LARGE_NAT_BITMAP),
            blocks: Some(raw.block_count.get()).filter(|&blocks| blocks < device_blocks),
            sector_size: 1u32.checked_shl(raw.log_sectorsize.get()).unwrap_or(BLOCK_SIZE as u32),
            cold_extensions: cold,
            hot_extensions: hot,
            casefold: CasefoldFlags { strict: encoding & 1 != 0, hash_only: encoding & 2 != 0 },
            uuid: Some(raw.uuid),
            ..Self::default()
        };
        if !sb.features.contains(Features::CASEFOLD) {
            options.casefold = CasefoldFlags::default();
        }
        let (reserved, over) = (cp.rsvd_segment_count.get(), cp.overprov_segment_count.get());
        let usual = plan(&[device_blocks], &options)?.reserve;
        if (usual.rsvd_segment_count, usual.overprov_segment_count) != (reserved, over) {
            let main = sb.geo.segment_count_main;
            options.reserved_sections = Some(reserved / sb.geo.segs_per_sec.max(1));
            options.overprovision_percent = Some(percent(main, reserved, over));
        }
        Ok(options)
    }
}

/// An over-provision ratio that yields `over - reserved` segments kept from users, in addition to the
/// reserved ones.
fn percent(main: u32, reserved: u32, over: u32) -> f64 {
    let (of, kept) = (main.saturating_sub(reserved).max(1), over.saturating_sub(reserved));
    (f64::from(kept) + 0.5) * 100.0 / f64::from(of)
}

fn texts(list: &[Vec<u8>]) -> Vec<String> {
    list.iter().map(|e| String::from_utf8_lossy(e).into_owned()).collect()
}
