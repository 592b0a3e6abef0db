//! The checkpoint block and the version bitmaps that follow it.
use crate::block::{set_word, word};
use crate::sit::LogType;
use crate::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, Corrupt, F2FS_MAGIC, Geometry, SegNo, Structure, crc};
use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Smallest checksum offset: directly after the fixed part.
pub const CHECKSUM_OFFSET_MIN: u32 = 192;
/// Usual checksum offset: the last word of the block.
pub const CHECKSUM_OFFSET_MAX: u32 = 4092;

bitflags! {
    /// `ckpt_flags`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct CpFlags: u32 {
        /// Written by a clean unmount.
        const UMOUNT = 0x1;
        /// The pack has orphan blocks.
        const ORPHAN_PRESENT = 0x2;
        /// Data summaries are stored compactly.
        const COMPACT_SUM = 0x4;
        /// The file system stopped after an error.
        const ERROR = 0x8;
        /// A check is needed.
        const FSCK = 0x10;
        /// Node summaries are stored, although this is not an unmount.
        const FASTBOOT = 0x20;
        /// Nodes of the roll-forward chain carry the checksum of the checkpoint.
        const CRC_RECOVERY = 0x40;
        /// The end of the pack's segment has bitmaps of full and of empty NAT blocks.
        const NAT_BITS = 0x80;
        /// All free blocks were discarded.
        const TRIMMED = 0x100;
        /// Set by fsck.f2fs: recovery ignores the checksums in nodes.
        const NOCRC_RECOVERY = 0x200;
        /// The NAT version bitmap comes first, after a checksum at its minimal offset.
        const LARGE_NAT_BITMAP = 0x400;
        /// Quota files may not agree with the volume.
        const QUOTA_NEED_FSCK = 0x800;
        /// Mounted with checkpoints disabled.
        const DISABLED = 0x1000;
        /// Checkpoints were disabled without cleaning first.
        const DISABLED_QUICK = 0x2000;
        /// A resize was interrupted.
        const RESIZEFS = 0x4000;
        const _ = !0;
    }
}

/// `struct f2fs_checkpoint`, the first 192 bytes; bitmaps follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawCheckpoint {
    /// Version of the pack; the higher one of two valid packs counts.
    pub checkpoint_ver: U64,
    /// Blocks that users may fill.
    pub user_block_count: U64,

    /// Blocks in use, reserved ones included.
    pub valid_block_count: U64,
    /// Segments that only cleaning may use.
    pub rsvd_segment_count: U32,
    /// Segments kept from users.
    pub overprov_segment_count: U32,

    /// Segments without a valid block.
    pub free_segment_count: U32,
    /// Segments of the node logs: hot, warm, cold.
    pub cur_node_segno: [U32; 8],
    /// Next block of each node log within its segment.
    pub cur_node_blkoff: [U16; 8],
    /// Segments of the data logs: hot, warm, cold.
    pub cur_data_segno: [U32; 8],
    /// Next block of each data log within its segment.
    pub cur_data_blkoff: [U16; 8],

    /// See [`CpFlags`].
    pub ckpt_flags: U32,
    /// Blocks of the pack, both ends included.
    pub cp_pack_total_block_count: U32,
    /// Block of the pack at which the summaries start.
    pub cp_pack_start_sum: U32,
    /// Node blocks in use.
    pub valid_node_count: U32,

    /// Inodes in use.
    pub valid_inode_count: U32,
    /// Nid at which the search for free nids continues.
    pub next_free_nid: U32,
    /// Bytes of the bitmap that chooses between the copies of each SIT block.
    pub sit_ver_bitmap_bytesize: U32,
    /// Bytes of the bitmap that chooses between the copies of each NAT block.
    pub nat_ver_bitmap_bytesize: U32,

    /// Byte of this block that the checksum is at.
    pub checksum_offset: U32,
    /// Seconds that the volume has been mounted, all mounts together.
    pub elapsed_time: U64,
    /// How each log chooses its next block: 0 in order (LFS), 1 in holes (SSR). F2FS uses the first six;
    /// Segno's mark of an external journal is in the last four.
    pub alloc_type: [u8; 16],
    /// Start of the bitmaps; 3900 bytes and the crc in the usual form.
    pub tail: [u8; BLOCK_SIZE - 192],
}
const _: () = assert!(size_of::<RawCheckpoint>() == 4096);
const _: () = assert!(core::mem::offset_of!(RawCheckpoint, ckpt_flags) == 132);
const _: () = assert!(core::mem::offset_of!(RawCheckpoint, tail) == 192);
const _: () = assert!(core::mem::offset_of!(RawCheckpoint, alloc_type) + 12 == JOURNAL_MARK);

/// Byte of the mark of an external journal: the last four of `alloc_type`.
const JOURNAL_MARK: usize = 188;

/// Next position of a log, as stored and unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Which log.
    pub log: LogType,
    /// Its segment.
    pub seg: SegNo,
    /// Its next block in that segment.
    pub blkoff: u16,
    /// 0 appends (LFS), 1 fills holes (SSR).
    pub alloc_type: u8,
}

impl LogPosition {
    /// Whether the log fills the holes of its segment.
    #[must_use]
    pub fn fills_holes(&self) -> bool {
        self.alloc_type == 1
    }

    /// Blocks of the segment, from its start, that may be in use.
    #[must_use]
    pub fn used_blocks(&self) -> u32 {
        if self.fills_holes() { BLOCKS_PER_SEG } else { u32::from(self.blkoff).min(BLOCKS_PER_SEG) }
    }
}

impl RawCheckpoint {
    /// Where a log writes next.
    #[must_use]
    pub fn position(&self, log: LogType) -> LogPosition {
        let (segs, offs) = match log.is_node() {
            true => (&self.cur_node_segno, &self.cur_node_blkoff),
            false => (&self.cur_data_segno, &self.cur_data_blkoff),
        };
        let i = log.idx() % 3;
        LogPosition {
            log,
            seg: segs.get(i).map_or(SegNo::NONE, |s| SegNo(s.get())),
            blkoff: offs.get(i).map_or(u16::MAX, |o| o.get()),
            alloc_type: self.alloc_type.get(log.idx()).copied().unwrap_or_default(),
        }
    }

    /// Stores where a log writes next.
    #[expect(clippy::indexing_slicing, reason = "there are six logs, and the arrays hold 8 and 16")]
    pub fn set_position(&mut self, p: &LogPosition) {
        let (segs, offs) = match p.log.is_node() {
            true => (&mut self.cur_node_segno, &mut self.cur_node_blkoff),
            false => (&mut self.cur_data_segno, &mut self.cur_data_blkoff),
        };
        let i = p.log.idx() % 3;
        segs[i].set(p.seg.0);
        offs[i].set(p.blkoff);
        self.alloc_type[p.log.idx()] = p.alloc_type;
    }

    /// The flags.
    #[must_use]
    pub fn flags(&self) -> CpFlags {
        CpFlags::from_bits_retain(self.ckpt_flags.get())
    }

    /// Checks the checksum offset and the checksum of one checkpoint block. Returns the crc ("cp_crc").
    pub fn verify(block: impl AsRef<[u8]>, at: u64) -> Result<u32, Corrupt> {
        let (block, off) = (block.as_ref(), checksum_offset(block.as_ref()));
        let max = block.len().saturating_sub(4);
        if !(CHECKSUM_OFFSET_MIN as usize..=max).contains(&off) {
            return Err(Corrupt::block(Structure::Checkpoint, at, "checksum offset", off as u64, max as u64));
        }
        let (stored, computed) = (word(block, off), checksum(block, off));
        if stored != computed {
            return Err(Corrupt::block(
                Structure::Checkpoint,
                at,
                "checksum",
                stored.into(),
                computed.into(),
            ));
        }
        Ok(stored)
    }

    /// Sets or clears the mark of a mount with an external journal, in which later changes may be. Call it before
    /// [`seal`](Self::seal). The mark is a checksum of all else: an implementation that builds its next
    /// checkpoint from this one, as Linux does, does not know the mark, and the old one does not fit the new
    /// checkpoint.
    pub fn set_external_journal<B: AsRef<[u8]> + AsMut<[u8]> + ?Sized>(block: &mut B, is_set: bool) {
        let mark = if is_set { journal_mark(block.as_ref()) } else { 0 };
        set_word(block.as_mut(), JOURNAL_MARK, mark);
    }

    /// Whether the checkpoint was written by a mount with an external journal, in which later changes may be.
    #[must_use]
    pub fn has_external_journal(block: &Block) -> bool {
        block.u32_at(JOURNAL_MARK) == journal_mark(&block.0)
    }

    /// Hides pending work in the checkpoint of a guarded volume. Linux frees orphans and syncs quota files
    /// even of volumes that it mounts read-only, and then writes a checkpoint; it does not if the orphan flag
    /// is clear and the flag of doubtful quota is set. The blocks of orphans stay in the pack. In such a
    /// mount Linux also resets zones without valid blocks of the checkpoint, unless checkpoints are disabled.
    /// Call it before [`seal`](Self::seal).
    pub fn hide_work(block: &mut [u8], has_quota: bool, has_zones: bool) {
        let mut flags =
            CpFlags::from_bits_retain(word(block, core::mem::offset_of!(RawCheckpoint, ckpt_flags)))
                .difference(CpFlags::ORPHAN_PRESENT);
        flags.set(CpFlags::QUOTA_NEED_FSCK, has_quota || flags.contains(CpFlags::QUOTA_NEED_FSCK));
        flags.set(CpFlags::DISABLED, has_zones);
        set_word(block, core::mem::offset_of!(RawCheckpoint, ckpt_flags), flags.bits());
    }

    /// Stores the checksum; call it last. Returns it.
    pub fn seal<B: AsMut<[u8]> + ?Sized>(block: &mut B) -> u32 {
        let block = block.as_mut();
        let off = checksum_offset(block);
        let c = checksum(block, off);
        set_word(block, off, c);
        c
    }

    /// Blocks of the pack, if the number is possible.
    pub fn total_blocks(&self, at: u64) -> Result<u32, Corrupt> {
        let n = self.cp_pack_total_block_count.get();
        if n > 2 && n <= 512 {
            Ok(n)
        } else {
            Err(Corrupt::block(Structure::Checkpoint, at, "cp_pack_total_block_count", n.into(), 512))
        }
    }
}

fn checksum_offset(block: &[u8]) -> usize {
    word(block, core::mem::offset_of!(RawCheckpoint, checksum_offset)) as usize
}

/// Over all bytes but its own.
fn checksum(block: &[u8], off: usize) -> u32 {
    let part = |r: Option<&[u8]>, seed| crc(seed, r.unwrap_or_default());
    let c = part(block.get(..off), F2FS_MAGIC);
    if off + 4 < block.len() { part(block.get(off + 4..), c) } else { c }
}

/// Never 0, which is there without a mark.
fn journal_mark(block: &[u8]) -> u32 {
    let mut unmarked = block.to_vec();
    set_word(&mut unmarked, JOURNAL_MARK, 0);
    checksum(&unmarked, checksum_offset(&unmarked)).max(1)
}

/// Where the version bitmaps are, as byte ranges of the checkpoint block followed by its payload blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapPlace {
    /// First byte of the SIT version bitmap.
    pub sit: usize,
    /// First byte of the NAT version bitmap.
    pub nat: usize,
}

/// Place of both bitmaps for a volume.
#[must_use]
pub fn bitmap_place(geo: &Geometry, flags: CpFlags) -> BitmapPlace {
    if flags.contains(CpFlags::LARGE_NAT_BITMAP) {
        BitmapPlace { nat: 196, sit: 196 + geo.nat_bitmap_bytes() }
    } else if geo.cp_payload > 0 {
        BitmapPlace { nat: 192, sit: geo.block_size as usize }
    } else {
        BitmapPlace { nat: 192 + geo.sit_bitmap_bytes(), sit: 192 }
    }
}

/// The newer of two packs whose two ends agree: pack 2 wins only when its version is ahead.
#[must_use]
pub fn newer_pack(ver1: Option<u64>, ver2: Option<u64>) -> Option<usize> {
    match (ver1, ver2) {
        (Some(a), Some(b)) => Some(usize::from(b.wrapping_sub(a).cast_signed() > 0)),
        (Some(_), None) => Some(0),
        (None, Some(_)) => Some(1),
        (None, None) => None,
    }
}

/// The value that valid nat_bits must have.
#[must_use]
pub fn nat_bits_cookie(ver: u64, cp_crc: u32) -> u64 {
    ver | u64::from(cp_crc) << 32
}

/// Blocks that nat_bits take at the end of a pack segment.
#[must_use]
pub fn nat_bits_blocks(geo: &Geometry) -> u32 {
    (geo.nat_blocks() / 4).saturating_add(8).div_ceil(geo.block_size.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux makes its next checkpoint: fields of the last one change, the bytes of the mark do not.
    #[test]
    fn the_mark_of_an_external_journal_fits_one_checkpoint() {
        for offset in [CHECKSUM_OFFSET_MIN, CHECKSUM_OFFSET_MAX] {
            let mut block = Block::zeroed();
            block.view_mut::<RawCheckpoint>().checksum_offset.set(offset);
            for version in 0..1000 {
                block.view_mut::<RawCheckpoint>().checkpoint_ver.set(version);
                RawCheckpoint::seal(&mut block);
                assert!(!RawCheckpoint::has_external_journal(&block), "{offset} {version}");
            }
            RawCheckpoint::set_external_journal(&mut block, true);
            let crc = RawCheckpoint::seal(&mut block);
            assert!(RawCheckpoint::has_external_journal(&block), "{offset}");
            assert_eq!(RawCheckpoint::verify(&block, 0), Ok(crc), "{offset}");
            block.view_mut::<RawCheckpoint>().checkpoint_ver.set(1000);
            RawCheckpoint::seal(&mut block);
            assert!(!RawCheckpoint::has_external_journal(&block), "{offset}");
        }
    }
}
