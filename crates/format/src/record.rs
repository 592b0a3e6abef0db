//! `s_stop_reason` and `s_errors`: what a running file system leaves for whoever repairs the volume.
use crate::bits::lsb;
use crate::superblock::RawSuperblock;

/// Why a file system stopped: index of a counter in `s_stop_reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StopReason {
    Shutdown = 0,
    FaultInject = 1,
    MetaPage = 2,
    WriteFail = 3,
    CorruptedSummary = 4,
    UpdateInode = 5,
    FlushFail = 6,
    NoSegment = 7,
    CorruptedFreeBitmap = 8,
    CorruptedNid = 9,
    ReadMeta = 10,
    ReadNode = 11,
    ReadData = 12,
}

/// A kind of damage: bit of `s_errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DamageKind {
    Cluster = 0,
    Decompression = 1,
    BlockAddress = 2,
    Dirent = 3,
    Inode = 4,
    Summary = 5,
    Footer = 6,
    SummaryType = 7,
    Journal = 8,
    NodeCount = 9,
    BlockCount = 10,
    Curseg = 11,
    Sit = 12,
    VerityXattr = 13,
    Xattr = 14,
    NodeReference = 15,
    Nat = 16,
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
