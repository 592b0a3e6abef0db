//! The one checksum of the format (`f2fs_crc32`).

use crc32fast::Hasher;

/// CRC-32 (reflected polynomial `0xEDB88320`) of `bytes`, continued from `seed`.
///
/// Neither end is inverted, unlike zlib's, so `crc(crc(s, a), b)` is the checksum of `a` followed by `b`.
#[must_use]
pub fn crc(seed: u32, bytes: &[u8]) -> u32 {
    // crc32fast inverts both ends; inverting once more on the outside takes that back.
    let mut hasher = Hasher::new_with_initial(!seed);
    hasher.update(bytes);
    !hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::crc;
    use proptest::prelude::*;

    const F2FS_MAGIC: u32 = 0xF2F5_2010;

    #[test]
    fn equals_the_known_values() {
        assert_eq!(crc(F2FS_MAGIC, b""), F2FS_MAGIC);
        assert_eq!(crc(F2FS_MAGIC, b"123456789"), 0x1657_A0C3);
        assert_eq!(crc(F2FS_MAGIC, &[0; 4096]), 0xA6AE_8BAD);
        assert_eq!(crc(u32::MAX, b"123456789"), 0x340B_C6D9);
        assert_eq!(crc(u32::MAX, &[0]), 0x2DFD_1072);
    }

    /// An inode's checksum chains the volume's uuid, the ino and the generation.
    #[test]
    fn chains_as_the_inode_checksum_does() {
        let uuid: Vec<u8> = (0..16).collect();
        let volume_seed = crc(u32::MAX, &uuid);
        assert_eq!(volume_seed, 0x3131_1D77);
        let with_ino = crc(volume_seed, &4u32.to_le_bytes());
        assert_eq!(crc(with_ino, &0x1234_5678_u32.to_le_bytes()), 0xF998_768D);
    }

    proptest! {
        #[test]
        fn agrees_with_the_bitwise_definition(seed: u32, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut expected = seed;
            for &byte in &bytes {
                expected ^= u32::from(byte);
                for _ in 0..8 {
                    expected = (expected >> 1) ^ (0xEDB8_8320 * (expected & 1));
                }
            }
            prop_assert_eq!(crc(seed, &bytes), expected);
        }
    }
}
