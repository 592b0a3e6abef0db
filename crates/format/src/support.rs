//! Which volumes this implementation supports: the one decision for mount, library, check, repair and rescue.
use crate::Features;
use core::fmt;

/// `log_blocksize` of the volumes that are supported.
pub(crate) const LOG_BLOCK_SIZE: u32 = 12;
/// Largest `log_blocksize` that Linux accepts.
pub(crate) const MAX_LOG_BLOCK_SIZE: u32 = 16;

/// Why a volume in good order cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// Its blocks have another size.
    BlockSize {
        /// As in the superblock.
        log_blocksize: u32,
    },
    /// It has features that this implementation does not know, or cannot read.
    Features(Features),
}

/// The first release of Linux that mounts volumes with a feature.
const LINUX: [(Features, &str); 2] = [(Features::DEVICE_ALIAS, "6.13"), (Features::PACKED_SSA, "6.19")];

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockSize { log_blocksize } => {
                let bytes = 1u64.checked_shl(*log_blocksize).unwrap_or(0);
                write!(
                    f,
                    "the volume has blocks of {bytes} bytes (log_blocksize {log_blocksize}), and this version supports blocks of 4096 bytes: \
                     Linux 6.7 or later mounts it on a machine with pages of {bytes} bytes"
                )
            }
            Self::Features(features) => {
                let names = features.names().join(", ");
                write!(f, "the volume uses {names}, which this version does not support: ")?;
                let known = LINUX.iter().rev().find(|(feature, _)| features.intersects(*feature));
                match known.filter(|_| features.unnamed() == 0) {
                    Some((_, release)) => write!(f, "Linux {release} or later mounts it"),
                    None => f.write_str("use the system that made it, or a later version"),
                }
            }
        }
    }
}

impl core::error::Error for Unsupported {}

impl Features {
    /// Those of which this implementation does not know how they change the format, or which it cannot read.
    #[must_use]
    pub fn unsupported(self) -> Self {
        let unread = Self::DEVICE_ALIAS | Self::PACKED_SSA;
        Self::from_bits_retain(self.bits() & unread.bits() | self.unnamed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::F2FS_MAGIC;
    use crate::superblock::RawSuperblock;
    use zerocopy::FromZeros;

    #[test]
    fn a_refusal_names_what_is_missing_and_what_mounts_the_volume() {
        let of = |bits| Features::from_bits_retain(bits).unsupported();
        assert_eq!(of(0x7fff), Features::empty());
        for (bits, said) in [
            (0x8001, "device_alias, which this version does not support: Linux 6.13 or later mounts it"),
            (0x18000, "device_alias, packed_ssa, which this version does not support: Linux 6.19 or later"),
            (0x20000, "0x20000, which this version does not support: use the system that made it"),
            (0x8004_8000, "device_alias, 0x80040000, which this version does not support: use the system"),
        ] {
            let text = Unsupported::Features(of(bits)).to_string();
            assert!(text.contains(said), "{bits:#x}: {text}");
        }
        let text = Unsupported::BlockSize { log_blocksize: 14 }.to_string();
        assert!(text.contains("blocks of 16384 bytes (log_blocksize 14)"), "{text}");
        assert!(text.contains("pages of 16384 bytes"), "{text}");
    }

    #[test]
    fn a_block_size_is_believed_if_magic_and_checksum_are_right() {
        let mut sb = RawSuperblock::new_zeroed();
        sb.magic.set(F2FS_MAGIC);
        for (log, is_other) in [(0, false), (11, false), (12, false), (13, true), (16, true), (17, false)] {
            sb.log_blocksize.set(log);
            assert_eq!(sb.other_block_size().is_some(), is_other, "{log}");
        }
        sb.log_blocksize.set(14);
        sb.feature.set(Features::SB_CHKSUM.bits());
        sb.checksum_offset.set(crate::superblock::SB_CRC_OFFSET);
        sb.seal();
        assert_eq!(sb.other_block_size(), Some(Unsupported::BlockSize { log_blocksize: 14 }));
        sb.uuid[0] ^= 1;
        assert_eq!(sb.other_block_size(), None);
        sb.magic.set(0);
        assert_eq!(sb.other_block_size(), None);
    }
}
