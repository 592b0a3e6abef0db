//! Marks that file systems, volume managers, partition tables and packed files have at fixed places.
use super::{JOURNAL_MAGIC, Kind, LINE, bytes};
use segno_format::superblock::SUPERBLOCK_OFFSET;
use segno_format::{BLOCK_SIZE, Block, F2FS_MAGIC};

/// Blocks at the start that hold all marks, except marks at the end of a device.
pub(crate) const FRONT: u64 = 17;

/// Unit of torn writes.
const SECTOR: usize = 512;

/// A mark at a byte offset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// With its article.
    pub(super) name: &'static str,
    class: Class,
    place: Place,
    bytes: &'static [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    FileSystem,
    Partitions,
    Packed,
    /// Also packed, and read as a tree by a build.
    Archive,
    Super,
    Encrypted,
    Machine,
    Member,
    Journal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start(usize),
    /// Bytes before the end of the device.
    End(usize),
}

impl Signature {
    pub(super) fn is_archive(&self) -> bool {
        self.class == Class::Archive
    }

    /// Whether one of its partitions may have a volume.
    pub(super) fn has_parts(&self) -> bool {
        matches!(self.class, Class::Partitions | Class::Super)
    }

    /// The way from such a device to a volume.
    pub(super) fn step(&self, name: &str) -> String {
        let step = match self.class {
            Class::FileSystem => "",
            Class::Partitions | Class::Super => {
                return format!(": `segno find {name}` lists its partitions, and how to name one");
            }
            Class::Packed | Class::Archive => ": unpack it first",
            Class::Encrypted => ": open it with cryptsetup, and name the device in /dev/mapper",
            Class::Machine => ": make a raw image of it first, with `qemu-img convert`",
            Class::Member => ": name the device that is made of it, below /dev",
            Class::Journal => ": name the volume that it belongs to",
        };
        step.to_owned()
    }
}

const fn mark(offset: usize, bytes: &'static [u8], class: Class, name: &'static str) -> Signature {
    Signature { name, class, place: Place::Start(offset), bytes }
}

const fn tail(offset: usize, bytes: &'static [u8], class: Class, name: &'static str) -> Signature {
    Signature { name, class, place: Place::End(offset), bytes }
}

/// Places of F2FS's magic number, in either superblock copy.
const F2FS: [usize; 2] = [SUPERBLOCK_OFFSET, BLOCK_SIZE + SUPERBLOCK_OFFSET];

static EXT: [Signature; 3] = [
    mark(0x438, &[0x53, 0xEF], Class::FileSystem, "an ext2 file system"),
    mark(0x438, &[0x53, 0xEF], Class::FileSystem, "an ext3 file system"),
    mark(0x438, &[0x53, 0xEF], Class::FileSystem, "an ext4 file system"),
];

/// More specific marks come first.
static SIGNATURES: &[Signature] = &[
    mark(0x10040, b"_BHRfS_M", Class::FileSystem, "a btrfs file system"),
    mark(0, b"XFSB", Class::FileSystem, "an XFS file system"),
    mark(0, b"LUKS\xBA\xBE", Class::Encrypted, "a LUKS volume"),
    mark(0, b"hsqs", Class::FileSystem, "a squashfs file system"),
    mark(0x400, &[0xE2, 0xE1, 0xF5, 0xE0], Class::FileSystem, "an EROFS file system"),
    mark(3, b"NTFS    ", Class::FileSystem, "an NTFS file system"),
    mark(3, b"EXFAT   ", Class::FileSystem, "an exFAT file system"),
    mark(3, b"-FVE-FS-", Class::Encrypted, "a BitLocker volume"),
    mark(54, b"FAT12   ", Class::FileSystem, "a FAT file system"),
    mark(54, b"FAT16   ", Class::FileSystem, "a FAT file system"),
    mark(82, b"FAT32   ", Class::FileSystem, "a FAT file system"),
    mark(
        0x1018,
        &[0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA],
        Class::FileSystem,
        "a bcachefs file system",
    ),
    mark(
        0x1018,
        &[0xC6, 0x85, 0x73, 0xF6, 0x66, 0xCE, 0x90, 0xA9],
        Class::FileSystem,
        "a bcachefs file system",
    ),
    mark(0x10034, b"ReIsEr", Class::FileSystem, "a reiserfs file system"),
    mark(0x8000, b"JFS1", Class::FileSystem, "a JFS file system"),
    mark(0x406, &[0x34, 0x34], Class::FileSystem, "a NILFS2 file system"),
    mark(0x400, b"H+\x00\x04", Class::FileSystem, "an HFS+ file system"),
    mark(0x20, b"NXSB", Class::FileSystem, "an APFS container"),
    mark(4086, b"SWAPSPACE2", Class::FileSystem, "swap space"),
    mark(4086, b"SWAP-SPACE", Class::FileSystem, "swap space"),
    mark(512, b"LABELONE", Class::Member, "an LVM physical volume"),
    mark(0x1000, &[0xFC, 0x4E, 0x2B, 0xA9], Class::Member, "a member of a Linux RAID"),
    mark(0, &[0xFC, 0x4E, 0x2B, 0xA9], Class::Member, "a member of a Linux RAID"),
    mark(0x1000, b"gDla", Class::Super, "an Android super image"),
    mark(0, &[0x3A, 0xFF, 0x26, 0xED], Class::Packed, "an Android sparse image"),
    mark(0, b"ANDROID!", Class::Packed, "an Android boot image"),
    mark(0, b"AVB0", Class::FileSystem, "a vbmeta image of Android"),
    mark(0, &[0x1F, 0x8B, 0x08], Class::Archive, "data compressed by gzip"),
    mark(0, b"\xFD7zXZ\0", Class::Packed, "data compressed by xz"),
    mark(0, &[0x28, 0xB5, 0x2F, 0xFD], Class::Packed, "data compressed by zstd"),
    mark(0, &[0x04, 0x22, 0x4D, 0x18], Class::Packed, "data compressed by lz4"),
    mark(0, &[0x02, 0x21, 0x4C, 0x18], Class::Packed, "data compressed by lz4"),
    mark(0, b"BZh", Class::Packed, "data compressed by bzip2"),
    mark(0, b"PK\x03\x04", Class::Packed, "a zip archive"),
    mark(0, b"7z\xBC\xAF\x27\x1C", Class::Packed, "a 7z archive"),
    mark(0, b"070701", Class::Packed, "a cpio archive"),
    mark(257, b"ustar", Class::Archive, "a tar archive"),
    mark(0, b"QFI\xFB", Class::Machine, "a qcow2 image"),
    mark(0, b"KDMV", Class::Machine, "a VMDK image"),
    mark(0, b"vhdxfile", Class::Machine, "a VHDX image"),
    mark(0x40, &[0x7F, 0x10, 0xDA, 0xBE], Class::Machine, "a VDI image"),
    mark(0, JOURNAL_MAGIC, Class::Journal, "a journal of segno"),
    mark(0x8001, b"CD001", Class::FileSystem, "an ISO 9660 file system"),
    mark(0x8001, b"BEA01", Class::FileSystem, "a UDF file system"),
    mark(512, b"EFI PART", Class::Partitions, "a partition table (GPT)"),
    mark(4096, b"EFI PART", Class::Partitions, "a partition table (GPT)"),
    // Boot sectors of file systems end the same way; they are named above.
    mark(510, &[0x55, 0xAA], Class::Partitions, "a partition table (MBR) or a boot sector"),
    tail(512, b"EFI PART", Class::Partitions, "a partition table (GPT)"),
    tail(64, b"AVBf", Class::FileSystem, "an AVB footer of Android"),
    tail(512, b"conectix", Class::Machine, "a VHD image"),
];

/// The most telling mark in the first [`FRONT`] blocks of a device, and its last one.
pub(crate) fn find(front: &[Block], last: &[Block]) -> Option<Kind> {
    let at = |offset, magic: &[u8]| bytes(front, offset).starts_with(magic);
    // A torn write of the mark, or of a superblock over it, leaves sectors of it.
    if (0..2 * BLOCK_SIZE).step_by(SECTOR).any(|start| at(start, LINE)) {
        return Some(Kind::Unfinished);
    }
    if F2FS.iter().any(|&offset| at(offset, &F2FS_MAGIC.to_le_bytes())) {
        return Some(Kind::F2fs);
    }
    if at(0x438, &[0x53, 0xEF]) {
        return Some(Kind::Other(ext(bytes(front, 0x400))));
    }
    let found = SIGNATURES.iter().find(|s| match s.place {
        Place::Start(offset) => at(offset, s.bytes),
        Place::End(offset) => bytes(last, BLOCK_SIZE.saturating_sub(offset)).starts_with(s.bytes),
    });
    found.map(Kind::Other)
}

/// Which of the ext file systems a superblock is of: ext3 has a journal, ext4 has features that ext3 does not know.
fn ext(superblock: &[u8]) -> &'static Signature {
    const HAS_JOURNAL: u32 = 4;
    const OF_EXT3: (u32, u32) = (0x16, 0x7);
    let word =
        |at: usize| superblock.get(at..).and_then(|s| s.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b));
    let (compat, incompat, ro_compat) = (word(0x5C), word(0x60), word(0x64));
    let [ext2, ext3, ext4] = &EXT;
    if incompat & !OF_EXT3.0 != 0 || ro_compat & !OF_EXT3.1 != 0 {
        ext4
    } else if compat & HAS_JOURNAL != 0 {
        ext3
    } else {
        ext2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockDevice, Contents, MemDevice, unfinished_format};

    const BLOCKS: u64 = 64;

    fn with(offset: usize, mark: &[u8]) -> MemDevice {
        let device = MemDevice::new(BLOCKS);
        let mut block = Block::zeroed();
        let start = offset % BLOCK_SIZE;
        block.0[start..start + mark.len()].copy_from_slice(mark);
        device.write((offset / BLOCK_SIZE) as u64, &[&block]).unwrap();
        device
    }

    fn said(device: &MemDevice) -> String {
        Contents::of(device).unwrap().about("a")
    }

    #[test]
    fn every_signature_is_named_with_a_way_on() {
        for s in SIGNATURES {
            let offset = match s.place {
                Place::Start(offset) => offset,
                Place::End(offset) => BLOCKS as usize * BLOCK_SIZE - offset,
            };
            let said = said(&with(offset, s.bytes));
            assert_eq!(
                said,
                format!("a holds {}, not an F2FS volume{}", s.name, s.step("a")),
                "{:?}",
                s.place
            );
        }
        for offset in [0x400, 0x1400] {
            assert_eq!(said(&with(offset, &[0x10, 0x20, 0xF5, 0xF2])), "a holds an F2FS volume");
        }
    }

    #[test]
    fn the_ext_file_systems_are_told_apart() {
        for (words, name) in
            [([0, 2, 1], "ext2"), ([4, 2, 1], "ext3"), ([4, 0x42, 1], "ext4"), ([0, 2, 8], "ext4")]
        {
            let mut superblock = [0; 0x68];
            superblock[0x38..0x3A].copy_from_slice(&[0x53, 0xEF]);
            superblock[0x5C..].copy_from_slice(words.map(u32::to_le_bytes).as_flattened());
            let said = said(&with(0x400, &superblock));
            assert_eq!(said, format!("a holds an {name} file system, not an F2FS volume"));
        }
    }

    #[test]
    fn zeros_other_data_and_an_unfinished_format_are_named() {
        assert_eq!(said(&MemDevice::new(BLOCKS)), "a is empty: there are only zeros where it was read");
        assert_eq!(said(&MemDevice::new(1)), "a is empty: there are only zeros where it was read");
        assert_eq!(said(&MemDevice::new(0)), "a is empty: there are only zeros where it was read");
        assert_eq!(
            said(&with(20 * BLOCK_SIZE, b"x")),
            "a holds data that is not recognised, not an F2FS volume"
        );
        let marked = "a was being formatted when that was interrupted; run the format again";
        for copy in 0..2 {
            let device = MemDevice::new(BLOCKS);
            device.write(copy, &[&unfinished_format()]).unwrap();
            assert_eq!(said(&device), marked, "copy {copy}");
        }
    }
}
