//! The stamp that links nodes to the checkpoint before them.
use segno_format::checkpoint::{CpFlags, RawCheckpoint};

/// `cp_ver` in the footers of nodes that were written after a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    value: u64,
    /// Old versions of Linux compare the version alone, and write no checksum.
    version_only: bool,
}

impl Stamp {
    /// Stamp of the nodes after a checkpoint with this checksum.
    #[must_use]
    pub fn after(cp: &RawCheckpoint, crc: u32) -> Self {
        let flags = cp.flags();
        let crc = if flags.contains(CpFlags::CRC_RECOVERY) { u64::from(crc) << 32 } else { 0 };
        let version_only = flags.contains(CpFlags::NOCRC_RECOVERY);
        Self { value: cp.checkpoint_ver.get() | crc, version_only }
    }

    /// The value of `cp_ver` on the device.
    #[must_use]
    pub fn value(self) -> u64 {
        self.value
    }

    /// Whether a node with this `cp_ver` was written after the checkpoint.
    #[must_use]
    pub fn is_of(self, cp_ver: u64) -> bool {
        if self.version_only { cp_ver as u32 == self.value as u32 } else { cp_ver == self.value }
    }
}
