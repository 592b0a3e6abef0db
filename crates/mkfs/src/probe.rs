//! What a device seems to hold already.
use segno_device::BlockDevice;
use segno_format::{BLOCK_SIZE, Block};
use std::io;

/// A mark at a byte offset that a file system, volume manager or partition table leaves.
struct Signature {
    name: &'static str,
    offset: usize,
    bytes: &'static [u8],
}

const fn at(offset: usize, bytes: &'static [u8], name: &'static str) -> Signature {
    Signature { name, offset, bytes }
}

/// The more telling marks come first.
const SIGNATURES: &[Signature] = &[
    at(0x400, &[0x10, 0x20, 0xF5, 0xF2], "f2fs"),
    at(0x1400, &[0x10, 0x20, 0xF5, 0xF2], "f2fs"),
    at(0x10040, b"_BHRfS_M", "btrfs"),
    at(0, b"XFSB", "xfs"),
    at(0, b"LUKS\xBA\xBE", "luks"),
    at(0, b"hsqs", "squashfs"),
    at(3, b"NTFS    ", "ntfs"),
    at(3, b"EXFAT   ", "exfat"),
    at(54, b"FAT12   ", "vfat"),
    at(54, b"FAT16   ", "vfat"),
    at(82, b"FAT32   ", "vfat"),
    at(512, b"LABELONE", "lvm physical volume"),
    at(0x1000, &[0xFC, 0x4E, 0x2B, 0xA9], "linux raid member"),
    at(0x400, &[0xE2, 0xE1, 0xF5, 0xE0], "erofs"),
    at(4086, b"SWAPSPACE2", "swap"),
    at(4086, b"SWAP-SPACE", "swap"),
    at(0x8001, b"CD001", "iso9660"),
    at(0x438, &[0x53, 0xEF], "ext2/ext3/ext4"),
    at(512, b"EFI PART", "gpt partition table"),
    at(4096, b"EFI PART", "gpt partition table"),
    // Boot sectors of file systems end the same way; they are named above.
    at(510, &[0x55, 0xAA], "partition table or boot sector"),
];

/// Blocks that hold all of them.
const PROBED_BLOCKS: u64 = 17;

/// Names the file system, volume manager or partition table whose mark is on the device, if there is one.
pub fn probe(device: &dyn BlockDevice) -> io::Result<Option<&'static str>> {
    let count = PROBED_BLOCKS.min(device.block_count());
    let mut blocks = vec![Block::zeroed(); count as usize];
    device.read(0, &mut blocks)?;
    let found = SIGNATURES.iter().find(|s| {
        let block = blocks.get(s.offset / BLOCK_SIZE);
        block.and_then(|b| b.0.get(s.offset % BLOCK_SIZE..)).is_some_and(|rest| rest.starts_with(s.bytes))
    });
    Ok(found.map(|s| s.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::MemDevice;

    #[test]
    fn every_signature_is_seen_and_nothing_else() {
        assert_eq!(probe(&MemDevice::new(64)).unwrap(), None);
        assert_eq!(probe(&MemDevice::new(1)).unwrap(), None);
        for s in SIGNATURES {
            let device = MemDevice::new(64);
            let mut block = Block::zeroed();
            let start = s.offset % BLOCK_SIZE;
            block.0[start..start + s.bytes.len()].copy_from_slice(s.bytes);
            device.write((s.offset / BLOCK_SIZE) as u64, &[&block]).unwrap();
            assert_eq!(probe(&device).unwrap(), Some(s.name), "mark at {}", s.offset);
        }
    }
}
