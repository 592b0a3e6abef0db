//! The journal's superblock, and checkpoints as the journal records them.
use crate::area::Area;
use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::record::data_crc;
use crate::ring::{MIN_RING, SUPERBLOCKS};
use segno_device::{BlockDevice, JOURNAL_MAGIC};
use segno_format::{BLOCK_SIZE, Block, BlockAddr, crc};

pub(crate) const VERSION: u32 = 1;
const CRC_AT: usize = BLOCK_SIZE - 4;
/// The fields are in the first sector, which is written as a whole.
const SECTOR: usize = 512;
/// One per log.
const CANARIES: usize = 6;

/// Identity of a checkpoint of a volume. Any other checkpoint differs in version or checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The volume's uuid.
    pub volume: [u8; 16],
    /// `checkpoint_ver`.
    pub version: u64,
    /// Checksum of the pack's first block.
    pub crc: u32,
    /// Whether mkfs wrote it and no other one was written since.
    pub is_first: bool,
}

/// A block at the position of a log at the checkpoint. Mounts with the journal do not write it; any other
/// mount begins to write there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canary {
    /// The block.
    pub addr: BlockAddr,
    /// Checksum of its bytes.
    pub crc: u32,
}

/// An announced checkpoint, or the one in force. It contains all changes of epochs up to `boundary`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpIntent {
    /// Version of the checkpoint.
    pub version: u64,
    /// Checksum of the first block of its pack.
    pub crc: u32,
    /// Highest epoch that it contains.
    pub boundary: u64,
    /// Up to six.
    pub canaries: Vec<Canary>,
}

/// An announcement in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub cp: CpIntent,
    /// The first group with changes after the boundary; the log must reach back to it.
    pub first_seq: u64,
}

impl Anchor {
    pub(crate) fn is(&self, cp: &Checkpoint) -> bool {
        self.cp.version == cp.version && self.cp.crc == cp.crc
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for v in [self.cp.version, self.cp.boundary, self.first_seq] {
            out.extend(v.to_le_bytes());
        }
        out.extend(self.cp.crc.to_le_bytes());
        let canaries = self.cp.canaries.iter().take(CANARIES);
        out.extend((canaries.len() as u32).to_le_bytes());
        for c in canaries {
            out.extend(c.addr.0.to_le_bytes());
            out.extend(c.crc.to_le_bytes());
        }
    }

    pub(crate) fn decode(b: &mut Bytes<'_>) -> std::result::Result<Self, &'static str> {
        let (version, boundary, first_seq) = (b.u64()?, b.counter()?, b.counter()?);
        let (crc, count) = (b.u32()?, b.u32()?);
        if count as usize > CANARIES {
            return Err("number of canaries");
        }
        let canary = |b: &mut Bytes<'_>| Ok(Canary { addr: BlockAddr(b.u32()?), crc: b.u32()? });
        let canaries = (0..count).map(|_| canary(b)).collect::<std::result::Result<_, &'static str>>()?;
        Ok(Self { cp: CpIntent { version, crc, boundary, canaries }, first_seq })
    }
}

impl Canary {
    /// Reads the current content of a block.
    pub fn of(data: &dyn BlockDevice, addr: BlockAddr) -> std::io::Result<Self> {
        let mut one = [Block::zeroed()];
        data.read(addr.0.into(), &mut one)?;
        let [block] = &one;
        Ok(Self { addr, crc: data_crc(block) })
    }
}

/// Where the log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Block of the ring.
    pub index: u64,
    pub seq: u64,
    /// `prev_crc` of the group there.
    pub prev_crc: u32,
}

/// The superblock. Two copies are written in turn, each only when the other is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalSuperblock {
    pub generation: u64,
    pub volume: [u8; 16],
    /// Random; every checksum of the journal depends on it, so no group of an older journal is accepted in
    /// this one.
    pub journal: [u8; 16],
    pub blocks: u64,
    /// The volume was unmounted: nothing is to be replayed.
    pub clean: bool,
    /// Number of the mount whose groups begin at `mount_seq`. Groups of earlier mounts from that number on
    /// were cut off. Without this rule an incomplete one would become complete if the new mount wrote the
    /// same bytes over its missing part.
    pub mount: u32,
    pub mount_seq: u64,
    pub tail: Tail,
    pub anchor: Anchor,
    /// Epochs up to this one were used.
    pub last_epoch: u64,
}

/// Whether a block may be a torn write of a superblock over zeros, which left its beginning, its checksum, or
/// both.
pub(crate) fn may_be_torn(block: &Block) -> bool {
    let is_zero = |part: std::ops::Range<usize>| block.0.get(part).is_some_and(|b| b.iter().all(|&b| b == 0));
    let begins = block.0.starts_with(JOURNAL_MAGIC) || is_zero(0..SECTOR);
    begins && is_zero(SECTOR..CRC_AT)
}

impl JournalSuperblock {
    /// The newer valid copy.
    pub(crate) fn read(area: &Area) -> Result<Self> {
        let mut both = [Block::zeroed(), Block::zeroed()];
        if area.blocks() < SUPERBLOCKS + MIN_RING {
            return Err(Error::TooSmall { blocks: area.blocks(), least: SUPERBLOCKS + MIN_RING });
        }
        area.read(0, &mut both)?;
        let [a, b] = both.map(|block| Self::decode(&block));
        match (a, b) {
            (Ok(a), Ok(b)) => Ok(if a.generation > b.generation { a } else { b }),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(Error::Absent { .. }), Err(e)) | (Err(e), Err(_)) => Err(e),
        }
    }

    pub(crate) fn encode(&self) -> Block {
        let mut out = Vec::with_capacity(256);
        out.extend(JOURNAL_MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(u32::from(self.clean).to_le_bytes());
        out.extend(self.generation.to_le_bytes());
        out.extend(self.volume);
        out.extend(self.journal);
        out.extend(self.blocks.to_le_bytes());
        out.extend(self.tail.index.to_le_bytes());
        out.extend(self.tail.seq.to_le_bytes());
        out.extend(self.tail.prev_crc.to_le_bytes());
        out.extend(self.mount.to_le_bytes());
        out.extend(self.mount_seq.to_le_bytes());
        out.extend(self.last_epoch.to_le_bytes());
        self.anchor.encode(&mut out);
        let mut block = Block::zeroed();
        block.0.iter_mut().zip(out).for_each(|(to, from)| *to = from);
        let sum = crc(u32::MAX, block.0.get(..CRC_AT).unwrap_or_default());
        block.set_u32_at(CRC_AT, sum);
        block
    }

    pub(crate) fn decode(block: &Block) -> Result<Self> {
        let absent = |why| Error::Absent { why };
        let mut b = Bytes(block.0.get(..CRC_AT).unwrap_or_default());
        if b.take(8).map_err(absent)? != JOURNAL_MAGIC {
            return Err(absent("no magic"));
        }
        if crc(u32::MAX, block.0.get(..CRC_AT).unwrap_or_default()) != block.u32_at(CRC_AT) {
            return Err(absent("checksum"));
        }
        let found = b.u32().map_err(absent)?;
        if found != VERSION {
            return Err(Error::Version { found, known: VERSION });
        }
        Self::fields(&mut b).map_err(absent)
    }

    fn fields(b: &mut Bytes<'_>) -> std::result::Result<Self, &'static str> {
        let clean = match b.u32()? {
            0 => false,
            1 => true,
            _ => return Err("flags"),
        };
        let uuid = |b: &mut Bytes<'_>| b.take(16).map(|u| u.first_chunk::<16>().copied().unwrap_or_default());
        let generation = b.counter()?;
        let (volume, journal) = (uuid(b)?, uuid(b)?);
        let blocks = b.u64()?;
        let (index, seq) = (b.u64()?, b.counter()?);
        let (prev_crc, mount) = (b.u32()?, b.u32()?);
        let mount_seq = b.counter()?;
        let tail = Tail { index, seq, prev_crc };
        let last_epoch = b.counter()?;
        let anchor = Anchor::decode(b)?;
        Ok(Self { generation, volume, journal, blocks, clean, mount, mount_seq, tail, anchor, last_epoch })
    }

    /// Seed of the checksums of groups.
    pub(crate) fn seed(&self) -> u32 {
        crc(u32::MAX, &self.journal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Incrementing the largest number would overflow.
    #[test]
    fn a_number_at_its_end_is_damage() {
        let cp = CpIntent { version: 1, crc: 2, boundary: 3, canaries: Vec::new() };
        let sound = JournalSuperblock {
            generation: 1,
            volume: [1; 16],
            journal: [2; 16],
            blocks: 100,
            clean: false,
            mount: 1,
            mount_seq: 1,
            tail: Tail { index: 0, seq: 1, prev_crc: 0 },
            anchor: Anchor { cp, first_seq: 1 },
            last_epoch: 1,
        };
        assert_eq!(JournalSuperblock::decode(&sound.encode()).unwrap(), sound);
        let damages: [fn(&mut JournalSuperblock); 6] = [
            |s| s.generation = u64::MAX,
            |s| s.tail.seq = u64::MAX,
            |s| s.mount_seq = u64::MAX,
            |s| s.last_epoch = u64::MAX,
            |s| s.anchor.cp.boundary = u64::MAX,
            |s| s.anchor.first_seq = u64::MAX,
        ];
        for damage in damages {
            let mut damaged = sound.clone();
            damage(&mut damaged);
            let found = JournalSuperblock::decode(&damaged.encode());
            assert!(matches!(found, Err(Error::Absent { why }) if why.starts_with("number")), "{found:?}");
        }
    }
}
