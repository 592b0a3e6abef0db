//! `s_stop_reason` and `s_errors`: records of a running file system for a later repair.
use crate::bits::lsb;
use crate::superblock::RawSuperblock;
use alloc::vec::Vec;

/// Why a file system stopped: index of a counter in `s_stop_reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StopReason {
    /// Requested by an ioctl.
    Shutdown = 0,
    /// Fault injection.
    FaultInject = 1,
    /// A metadata block could not be read or written.
    MetaPage = 2,
    /// A write failed.
    WriteFail = 3,
    /// A summary block contradicts its segment.
    CorruptedSummary = 4,
    /// An inode could not be updated.
    UpdateInode = 5,
    /// A device flush failed.
    FlushFail = 6,
    /// There was no free segment left for a log.
    NoSegment = 7,
    /// The map of free segments contradicts itself.
    CorruptedFreeBitmap = 8,
    /// A node id is out of range.
    CorruptedNid = 9,
    /// A metadata block could not be read.
    ReadMeta = 10,
    /// A node block could not be read.
    ReadNode = 11,
    /// A data block could not be read.
    ReadData = 12,
}

/// A kind of damage: bit of `s_errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DamageKind {
    /// A compressed cluster has an impossible shape.
    Cluster = 0,
    /// A cluster cannot be decompressed.
    Decompression = 1,
    /// A block address is out of range.
    BlockAddress = 2,
    /// A directory entry is damaged.
    Dirent = 3,
    /// An inode contradicts itself.
    Inode = 4,
    /// A summary block is damaged.
    Summary = 5,
    /// A node footer does not fit its node.
    Footer = 6,
    /// A summary block is of the wrong type.
    SummaryType = 7,
    /// A journal in a summary block is damaged.
    Journal = 8,
    /// Node counters disagree.
    NodeCount = 9,
    /// Block counters disagree.
    BlockCount = 10,
    /// The position of a log is impossible.
    Curseg = 11,
    /// A SIT entry is damaged.
    Sit = 12,
    /// The attribute that locates a verity tree is damaged.
    VerityXattr = 13,
    /// Extended attributes are damaged.
    Xattr = 14,
    /// A node refers to an impossible node.
    NodeReference = 15,
    /// A NAT entry is damaged.
    Nat = 16,
    /// The orphan list names an impossible inode.
    Orphan = 17,
}

const STOPS: [&str; 13] = [
    "shutdown",
    "fault injection",
    "metadata block unreadable",
    "write failure",
    "corrupted summary",
    "inode block unreadable",
    "flush failure",
    "no free segment",
    "corrupted free bitmap",
    "corrupted node id",
    "metadata read failure",
    "node read failure",
    "data read failure",
];
const DAMAGE: [&str; 18] = [
    "corrupted cluster",
    "decompression failure",
    "invalid block address",
    "corrupted directory entry",
    "corrupted inode",
    "inconsistent summary",
    "inconsistent node footer",
    "inconsistent summary type",
    "corrupted journal",
    "inconsistent node count",
    "inconsistent block count",
    "invalid log position",
    "inconsistent SIT",
    "corrupted verity attribute",
    "corrupted extended attribute",
    "invalid node reference",
    "inconsistent NAT",
    "inconsistent orphan list",
];

impl RawSuperblock {
    /// Counts a stop; the counter stays at its limit.
    pub fn note_stop(&mut self, reason: StopReason) {
        if let Some(n) = self.s_stop_reason.get_mut(reason as usize) {
            *n = n.saturating_add(1);
        }
    }

    /// Adds kinds of damage, one bit each.
    pub fn note_damage(&mut self, kinds: u32) {
        for i in (0..u32::BITS as usize).filter(|i| kinds >> i & 1 != 0) {
            lsb::put(&mut self.s_errors, i, true);
        }
    }

    /// Why, and how often, the file system stopped, in words.
    #[must_use]
    pub fn stops(&self) -> Vec<(&'static str, u8)> {
        let named = |(i, &n): (usize, &u8)| (STOPS.get(i).copied().unwrap_or("unknown reason"), n);
        self.s_stop_reason.iter().enumerate().filter(|(_, n)| **n != 0).map(named).collect()
    }

    /// The kinds of damage seen, in words.
    #[must_use]
    pub fn damage(&self) -> Vec<&'static str> {
        let bits = self.s_errors.len() * 8;
        let seen = (0..bits).filter(|&i| lsb::test(&self.s_errors, i));
        seen.map(|i| DAMAGE.get(i).copied().unwrap_or("unknown damage")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn records_are_where_the_format_has_them() {
        let mut sb = RawSuperblock::new_zeroed();
        (0..300).for_each(|_| sb.note_stop(StopReason::FlushFail));
        sb.note_damage(1 << DamageKind::Dirent as u32 | 1 << DamageKind::Orphan as u32);
        assert_eq!(sb.s_stop_reason[6], 255);
        assert_eq!(sb.s_errors[..3], [0b1000, 0, 0b10]);
        assert_eq!(sb.stops(), [("flush failure", 255)]);
        assert_eq!(sb.damage(), ["corrupted directory entry", "inconsistent orphan list"]);
    }
}
