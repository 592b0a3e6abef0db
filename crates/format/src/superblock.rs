//! The superblock: raw bytes and the checks after which its numbers may be trusted.
use crate::support::{LOG_BLOCK_SIZE, MAX_LOG_BLOCK_SIZE};
use crate::{
    BLOCK_SIZE, BLOCKS_PER_SEG, BlockAddr, Corrupt, F2FS_MAGIC, Features, Geometry, Structure, Unsupported,
    crc,
};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Byte offset of the superblock inside blocks 0 and 1.
pub const SUPERBLOCK_OFFSET: usize = 1024;
/// Most segments a volume may have (16 TiB).
pub const MAX_SEGMENTS: u32 = 8_388_608;
/// Most devices in a volume.
pub const MAX_DEVICES: usize = 8;
/// Extensions in the list, cold and hot together.
pub const MAX_EXTENSIONS: u32 = 64;
/// Offset of the crc, and value of `checksum_offset` if the feature is on.
pub const SB_CRC_OFFSET: u32 = 3068;

/// One member device (`struct f2fs_device`).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDevice {
    /// Path of the device, ended by a zero byte.
    pub path: [u8; 64],
    /// Segments on the device.
    pub total_segments: U32,
}

/// `struct f2fs_super_block`, 3072 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSuperblock {
    /// 0xF2F52010.
    pub magic: U32,
    /// Major version of the format.
    pub major_ver: U16,
    /// Minor version of the format.
    pub minor_ver: U16,
    /// Bytes of a sector, as a power of two.
    pub log_sectorsize: U32,
    /// Sectors of a block, as a power of two.
    pub log_sectors_per_block: U32,

    /// Bytes of a block, as a power of two.
    pub log_blocksize: U32,
    /// Blocks of a segment, as a power of two.
    pub log_blocks_per_seg: U32,
    /// Segments in a section.
    pub segs_per_sec: U32,
    /// Sections in a zone.
    pub secs_per_zone: U32,

    /// Byte of this structure that `crc` is at.
    pub checksum_offset: U32,
    /// Blocks of the volume.
    pub block_count: U64,
    /// Sections of the main area.
    pub section_count: U32,

    /// Segments of all areas.
    pub segment_count: U32,
    /// Segments of the checkpoint area.
    pub segment_count_ckpt: U32,
    /// Segments of the SIT area, both copies.
    pub segment_count_sit: U32,
    /// Segments of the NAT area, both copies.
    pub segment_count_nat: U32,

    /// Segments of the summary area.
    pub segment_count_ssa: U32,
    /// Segments of the main area.
    pub segment_count_main: U32,
    /// First block of segment 0.
    pub segment0_blkaddr: U32,
    /// First block of the checkpoint area.
    pub cp_blkaddr: U32,

    /// First block of the SIT area.
    pub sit_blkaddr: U32,
    /// First block of the NAT area.
    pub nat_blkaddr: U32,
    /// First block of the summary area.
    pub ssa_blkaddr: U32,
    /// First block of the main area.
    pub main_blkaddr: U32,

    /// Inode of the root directory: 3.
    pub root_ino: U32,
    /// Virtual inode of the node blocks in the kernel: 1.
    pub node_ino: U32,
    /// Virtual inode of the metadata blocks in the kernel: 2.
    pub meta_ino: U32,
    /// Volume id.
    pub uuid: [u8; 16],
    /// Label in UTF-16, ended by a zero.
    pub volume_name: [U16; 512],

    /// Cold extensions in `extension_list`.
    pub extension_count: U32,
    /// Extensions of cold files, then of hot files, each ended by a zero byte.
    pub extension_list: [[u8; 8]; 64],
    /// Blocks of a pack that hold the part of the SIT bitmap that does not fit into its first block.
    pub cp_payload: U32,
    /// Kernel that mounted the volume last.
    pub version: [u8; 256],
    /// Kernel that ran when the volume was formatted.
    pub init_version: [u8; 256],

    /// See [`Features`].
    pub feature: U32,
    /// Unused.
    pub encryption_level: u8,
    /// Salt that user space derives encryption keys with.
    pub encrypt_pw_salt: [u8; 16],
    /// The devices of a volume of several; the path of the first unused entry is empty.
    pub devs: [RawDevice; MAX_DEVICES],
    /// Quota files of users, groups and projects; 0 without one.
    pub qf_ino: [U32; 3],
    /// Hot extensions in `extension_list`.
    pub hot_ext_count: u8,
    /// Encoding of casefolded names: 1 is UTF-8 12.1.
    pub s_encoding: U16,
    /// Bit 0: names that are not valid in the encoding are refused. Bit 1: lookups rely on the hash.
    pub s_encoding_flags: U16,
    /// How often each [`StopReason`](crate::record::StopReason) occurred.
    pub s_stop_reason: [u8; 32],
    /// A bit for each [`DamageKind`](crate::record::DamageKind) that was seen.
    pub s_errors: [u8; 16],
    /// Unused by Linux.
    pub reserved: [u8; 258],
    /// Checksum, on volumes with that feature.
    pub crc: U32,
}
const _: () = assert!(size_of::<RawSuperblock>() == 3072);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, volume_name) == 124);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, feature) == 2180);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, devs) == 2201);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, s_errors) == 2794);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, crc) == 3068);

/// A member device, as recorded in the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Path recorded when the volume was formatted: any bytes but NUL. Nothing is opened because it is recorded here.
    pub path: Vec<u8>,
    /// Segments on it.
    pub total_segments: u32,
}

/// A superblock that passed every check.
#[derive(Clone)]
pub struct Superblock {
    /// The bytes, for writing back.
    pub raw: RawSuperblock,
    /// Addresses and sizes derived from it.
    pub geo: Geometry,
    /// Feature bits, without that of a guard.
    pub features: Features,
    /// A writable volume that is marked as a read-only one, so that whoever does not know its journal leaves
    /// it alone.
    pub guarded: bool,
    /// Members of a multi-device volume; empty for a single device.
    pub devices: Vec<Device>,
}

impl RawSuperblock {
    /// The superblock inside block 0 or 1.
    #[must_use]
    pub fn from_block(block: &[u8; BLOCK_SIZE]) -> Self {
        let bytes = block.get(SUPERBLOCK_OFFSET..).unwrap_or_default();
        Self::read_from_prefix(bytes).map_or_else(|_| zerocopy::FromZeros::new_zeroed(), |(sb, _)| sb)
    }

    /// Puts the superblock into block 0 or 1 and leaves the other bytes alone.
    pub fn store(&self, block: &mut [u8; BLOCK_SIZE]) {
        if let Some(dst) = block.get_mut(SUPERBLOCK_OFFSET..) {
            // The structure is 3072 bytes and so is the room: checked at compile time above.
            let _fits = self.write_to(dst);
        }
    }

    /// Recomputes the crc when the feature is on.
    pub fn seal(&mut self) {
        if Features::from_bits_retain(self.feature.get()).contains(Features::SB_CHKSUM) {
            self.crc = U32::new(self.checksum());
        }
    }

    /// The crc over everything before the crc field.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        let bytes = self.as_bytes();
        crc(F2FS_MAGIC, bytes.get(..SB_CRC_OFFSET as usize).unwrap_or_default())
    }

    /// Checks everything the kernel checks where pages have 4096 bytes; `copy` is the block the bytes came from.
    pub fn parse(&self, copy: u64) -> Result<Superblock, Corrupt> {
        self.parse_up_to(copy, LOG_BLOCK_SIZE)
    }

    /// The same for a volume with blocks of any size that the format has.
    pub fn parse_any_block_size(&self, copy: u64) -> Result<Superblock, Corrupt> {
        self.parse_up_to(copy, MAX_LOG_BLOCK_SIZE)
    }

    fn parse_up_to(&self, copy: u64, max_log_blocksize: u32) -> Result<Superblock, Corrupt> {
        let bad = |why, found: u32, expected: u32| {
            Err(Corrupt::block(Structure::Superblock, copy, why, found.into(), expected.into()))
        };
        let same = |why, found: u32, expected: u32| {
            if found == expected { Ok(()) } else { bad(why, found, expected) }
        };
        let within = |why, found: u32, min: u32, max: u32| {
            if found < min {
                bad(why, found, min)
            } else if found > max {
                bad(why, found, max)
            } else {
                Ok(())
            }
        };
        self.verify().or_else(|(why, found, expected)| bad(why, found, expected))?;
        let features = Features::from_bits_retain(self.feature.get());
        let log_blocksize = self.log_blocksize.get();
        within("log_blocksize", log_blocksize, LOG_BLOCK_SIZE, max_log_blocksize)?;
        same("log_blocks_per_seg", self.log_blocks_per_seg.get(), 9)?;
        let log_sectorsize = self.log_sectorsize.get();
        within("log_sectorsize", log_sectorsize, 9, log_blocksize)?;
        let per_block = log_blocksize.saturating_sub(log_sectorsize);
        same("log_sectors_per_block", self.log_sectors_per_block.get(), per_block)?;
        let (segs, main) = (self.segment_count.get(), self.segment_count_main.get());
        let (spz, sps, secs) = (self.secs_per_zone.get(), self.segs_per_sec.get(), self.section_count.get());
        within("segment_count", segs, 9, MAX_SEGMENTS)?;
        within("section_count", secs, 1, main)?;
        within("segs_per_sec", sps, 1, segs)?;
        same("segment_count_main", main, secs.saturating_mul(sps))?;
        within("section_count against segment_count", secs, 1, segs.checked_div(sps).unwrap_or(0))?;
        let by_blocks = u32::try_from(self.block_count.get() / 512).unwrap_or(u32::MAX);
        within("segment_count against block_count", segs, 9, by_blocks)?;
        within("secs_per_zone", spz, 1, secs)?;
        within("extension_count", self.extension_count.get(), 0, MAX_EXTENSIONS)?;
        within(
            "extension counts",
            self.extension_count.get().saturating_add(self.hot_ext_count.into()),
            0,
            MAX_EXTENSIONS,
        )?;
        within("cp_payload", self.cp_payload.get(), 0, 512 - 2 - 6 - 1)?;
        same("node_ino", self.node_ino.get(), 1)?;
        same("meta_ino", self.meta_ino.get(), 2)?;
        same("root_ino", self.root_ino.get(), 3)?;
        let devices = self.devices();
        if !devices.is_empty() {
            let sum = devices.iter().fold(0u32, |s, d| s.saturating_add(d.total_segments));
            same("sum of the devices' segments", sum, segs)?;
        }
        self.check_areas(copy)?;
        let guarded = self.is_guarded();
        let features = if guarded { features.difference(Features::RO) } else { features };
        Ok(Superblock { raw: *self, geo: Geometry::of(self, features), features, guarded, devices })
    }

    /// Checks that it is one: magic number, and checksum if there is one. An error has the rule, the value
    /// found and the one expected.
    pub(crate) fn verify(&self) -> Result<(), (&'static str, u32, u32)> {
        let same =
            |why, found, expected| if found == expected { Ok(()) } else { Err((why, found, expected)) };
        same("magic number", self.magic.get(), F2FS_MAGIC)?;
        if Features::from_bits_retain(self.feature.get()).contains(Features::SB_CHKSUM) {
            same("checksum offset", self.checksum_offset.get(), SB_CRC_OFFSET)?;
            same("checksum", self.crc.get(), self.checksum())?;
        }
        Ok(())
    }

    /// Whether it is that of a volume with blocks of another size, which [`parse`](Self::parse) refuses.
    #[must_use]
    pub fn other_block_size(&self) -> Option<Unsupported> {
        let log_blocksize = self.log_blocksize.get();
        let is_other = (LOG_BLOCK_SIZE + 1..=MAX_LOG_BLOCK_SIZE).contains(&log_blocksize);
        (is_other && self.verify().is_ok()).then_some(Unsupported::BlockSize { log_blocksize })
    }

    /// Whether it is marked read-only and has what a writable volume has: room for summaries. A read-only
    /// image may have some too, as sections are aligned, but its segments follow the superblocks.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        let marked = Features::from_bits_retain(self.feature.get()).contains(Features::RO);
        marked && self.has_summaries() && self.segment0_blkaddr.get() as usize > SUPERBLOCK_COPIES.len()
    }

    /// Marks a writable volume as a read-only one, or takes that back; [seal](Self::seal) it afterwards.
    pub fn set_guard(&mut self, on: bool) {
        let mut features = Features::from_bits_retain(self.feature.get());
        features.set(Features::RO, on);
        self.feature = U32::new(features.bits());
    }

    /// The volume label.
    #[must_use]
    pub fn label(&self) -> String {
        let units = self.volume_name.iter().map(|u| u.get()).take_while(|&u| u != 0);
        char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }

    /// Sets the volume label, if it fits; [seal](Self::seal) it afterwards.
    #[must_use]
    pub fn set_label(&mut self, label: &str) -> bool {
        if label.encode_utf16().count() > self.volume_name.len() {
            return false;
        }
        let units = label.encode_utf16().chain(core::iter::repeat(0));
        self.volume_name.iter_mut().zip(units).for_each(|(place, unit)| place.set(unit));
        true
    }

    fn has_summaries(&self) -> bool {
        u64::from(self.segment_count_ssa.get()) * 512 >= u64::from(self.segment_count_main.get())
    }

    fn check_areas(&self, copy: u64) -> Result<(), Corrupt> {
        let same = |why, found: u32, expected: Option<u32>| match expected {
            Some(e) if e == found => Ok(()),
            e => Err(Corrupt::block(
                Structure::Superblock,
                copy,
                why,
                found.into(),
                e.map_or(u64::MAX, u64::from),
            )),
        };
        let after =
            |start: &U32, segs: &U32| segs.get().checked_mul(512).and_then(|n| start.get().checked_add(n));
        same("cp_blkaddr", self.cp_blkaddr.get(), Some(self.segment0_blkaddr.get()))?;
        same("segment_count_ckpt", self.segment_count_ckpt.get(), Some(2))?;
        same("sit_blkaddr", self.sit_blkaddr.get(), after(&self.cp_blkaddr, &self.segment_count_ckpt))?;
        same("nat_blkaddr", self.nat_blkaddr.get(), after(&self.sit_blkaddr, &self.segment_count_sit))?;
        same("ssa_blkaddr", self.ssa_blkaddr.get(), after(&self.nat_blkaddr, &self.segment_count_nat))?;
        same("main_blkaddr", self.main_blkaddr.get(), after(&self.ssa_blkaddr, &self.segment_count_ssa))?;
        let main_end = after(&self.main_blkaddr, &self.segment_count_main);
        let seg_end = after(&self.segment0_blkaddr, &self.segment_count);
        if main_end.is_none() || main_end > seg_end {
            same("end of the main area", main_end.unwrap_or(u32::MAX), seg_end)?;
        }
        let even = |why, n: &U32| same(why, n.get() % 2, Some(0));
        even("segment_count_sit is odd", &self.segment_count_sit)?;
        even("segment_count_nat is odd", &self.segment_count_nat)?;
        if self.segment_count_nat.get() == 0 || self.segment_count_sit.get() == 0 {
            return same("empty SIT or NAT area", 0, Some(2));
        }
        let geo = Geometry::of(self, Features::from_bits_retain(self.feature.get()));
        let sit_entries = u64::from(self.segment_count_sit.get() / 2) * 512 * u64::from(geo.sit_per_block());
        if sit_entries < u64::from(self.segment_count_main.get()) {
            return same(
                "SIT area too small",
                self.segment_count_sit.get(),
                Some(self.segment_count_main.get()),
            );
        }
        let ro = Features::from_bits_retain(self.feature.get()).contains(Features::RO);
        let packed = Features::from_bits_retain(self.feature.get()).contains(Features::PACKED_SSA);
        if !ro && !packed && !self.has_summaries() {
            return same(
                "SSA area too small",
                self.segment_count_ssa.get(),
                Some(self.segment_count_main.get()),
            );
        }
        Ok(())
    }

    fn devices(&self) -> Vec<Device> {
        self.devs
            .iter()
            .take_while(|d| d.path.first().is_some_and(|&b| b != 0))
            .map(|d| Device {
                path: d.path.iter().copied().take_while(|&b| b != 0).collect(),
                total_segments: d.total_segments.get(),
            })
            .collect()
    }
}

impl Geometry {
    pub(crate) fn of(sb: &RawSuperblock, features: Features) -> Self {
        Self {
            block_size: 1u32.checked_shl(sb.log_blocksize.get()).unwrap_or(0),
            segs_per_sec: sb.segs_per_sec.get(),
            secs_per_zone: sb.secs_per_zone.get(),
            section_count: sb.section_count.get(),
            segment_count: sb.segment_count.get(),
            segment_count_sit: sb.segment_count_sit.get(),
            segment_count_nat: sb.segment_count_nat.get(),
            segment_count_ssa: sb.segment_count_ssa.get(),
            segment_count_main: sb.segment_count_main.get(),
            segment0_blkaddr: sb.segment0_blkaddr.get(),
            cp_blkaddr: sb.cp_blkaddr.get(),
            sit_blkaddr: sb.sit_blkaddr.get(),
            nat_blkaddr: sb.nat_blkaddr.get(),
            ssa_blkaddr: sb.ssa_blkaddr.get(),
            main_blkaddr: sb.main_blkaddr.get(),
            cp_payload: sb.cp_payload.get(),
            block_count: sb.block_count.get(),
            has_ssa: !features.contains(Features::RO),
            packed_ssa: features.contains(Features::PACKED_SSA),
        }
    }
}

impl Superblock {
    /// Blocks of the first device, and of each other one, that belong to the volume.
    #[must_use]
    pub fn device_blocks(&self) -> (u64, Vec<u64>) {
        let blocks = |segments: u32| u64::from(segments).saturating_mul(u64::from(BLOCKS_PER_SEG));
        let (first, others) = match self.devices.split_first() {
            Some((first, others)) => (first.total_segments, others),
            None => (self.geo.segment_count, [].as_slice()),
        };
        // Segments are counted from segment 0, which comes after the superblocks.
        let first = blocks(first).saturating_add(u64::from(self.geo.segment0_blkaddr));
        (first, others.iter().map(|d| blocks(d.total_segments)).collect())
    }

    /// The volume label.
    #[must_use]
    pub fn label(&self) -> String {
        self.raw.label()
    }

    /// Whether a volume with this superblock can be read.
    pub fn check_support(&self) -> Result<(), Unsupported> {
        let features = self.features.unsupported();
        if features.is_empty() { Ok(()) } else { Err(Unsupported::Features(features)) }
    }

    /// Seed of inode checksums.
    #[must_use]
    pub fn inode_checksum_seed(&self) -> u32 {
        crc(u32::MAX, &self.raw.uuid)
    }

    /// Extensions whose files are cold (`hot` false) or hot.
    #[must_use]
    pub fn extensions(&self, hot: bool) -> Vec<Vec<u8>> {
        let cold = self.raw.extension_count.get() as usize;
        let (skip, take) = if hot { (cold, self.raw.hot_ext_count as usize) } else { (0, cold) };
        let text = |e: &[u8; 8]| e.iter().copied().take_while(|&b| b != 0).collect::<Vec<u8>>();
        self.raw.extension_list.iter().skip(skip).take(take).map(text).filter(|e| !e.is_empty()).collect()
    }

    /// Inode numbers of the quota files in use: user, group, project.
    #[must_use]
    pub fn quota_inos(&self) -> [Option<u32>; 3] {
        self.raw.qf_ino.map(|q| (q.get() != 0).then_some(q.get()))
    }
}

impl core::fmt::Debug for Superblock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Superblock")
            .field("geo", &self.geo)
            .field("features", &self.features)
            .finish_non_exhaustive()
    }
}

/// Where the superblock copies are.
pub const SUPERBLOCK_COPIES: [BlockAddr; 2] = [BlockAddr(0), BlockAddr(1)];

/// A volume id in the usual form.
#[must_use]
pub fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex = u128::from_be_bytes(*bytes);
    let part = |shift: u32, digits: u32| (hex >> shift) & ((1 << (4 * digits)) - 1);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 8),
        part(80, 4),
        part(64, 4),
        part(48, 4),
        part(0, 12)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_dashes() {
        let bytes =
            [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x10];
        assert_eq!(uuid_text(&bytes), "11223344-5566-7788-99aa-bbccddeeff10");
    }
}
