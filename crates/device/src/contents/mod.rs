//! Names the contents of a device: the one recogniser of all commands, of the library and of its bindings.
mod remains;
mod signatures;

use crate::{BlockDevice, Zone, ZoneCondition, ZoneKind};
use segno_format::{BLOCK_SIZE, Block};
use signatures::Signature;
use std::fmt;
use std::io;
use std::ops::Range;

/// Blocks at the start of a device that are read: 16 MiB.
const HEAD: u64 = 4096;
/// Blocks of one read, and of a sample.
const PIECE: u64 = 64;
/// Samples of the blocks after the head, evenly spread from the end.
const SAMPLES: u64 = 64;
/// Line that fills the superblock blocks of a device while it is formatted. It has the size of a part of a sector, so any torn
/// write of the marker or of a superblock over it leaves whole lines, and no superblock that passes its checks.
const LINE: &[u8; 64] = b"A format by segno has not been completed: it has to be run again";

/// First bytes of a journal.
pub const JOURNAL_MAGIC: &[u8; 8] = b"SEGNOJSB";

/// The block that a format keeps in place of the superblocks until everything else is durable.
#[must_use]
pub fn unfinished_format() -> Block {
    let mut block = Block::zeroed();
    block.0.as_chunks_mut::<64>().0.fill(*LINE);
    block
}

/// The contents of a device, as far as a bounded search finds them. Displayed as a predicate: "holds an ext4 file system".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    kind: Kind,
    /// Nodes or checkpoints of an F2FS volume were found.
    remains: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A format was cut off.
    Unfinished,
    /// A superblock copy has F2FS's magic number.
    F2fs,
    Other(&'static Signature),
    /// Everything that was read is zero.
    Zeros,
    Unknown,
}

impl Contents {
    /// Reads at most 32 MiB of the device.
    pub fn of(device: &dyn BlockDevice) -> io::Result<Self> {
        let mut zones = device.zones()?;
        zones.retain(|z| z.kind == ZoneKind::Sequential);
        let zeros = zones.iter().all(|z| z.condition == ZoneCondition::Empty);
        let kind = signatures::find(device)?;
        let mut search = Search { device, zones, remains: false, zeros };
        search.all()?;
        let rest = if search.zeros { Kind::Zeros } else { Kind::Unknown };
        Ok(Self { kind: kind.unwrap_or(rest), remains: search.remains })
    }

    /// Contents of a device that could not be searched.
    pub(crate) fn unknown() -> Self {
        Self { kind: Kind::Unknown, remains: false }
    }

    /// Whether every block that was looked at is zero.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.kind == Kind::Zeros
    }

    /// Whether a superblock copy has F2FS's magic number, valid or not.
    #[must_use]
    pub fn is_f2fs(&self) -> bool {
        self.kind == Kind::F2fs
    }

    /// Whether an F2FS volume lost its superblocks and nothing else is recognised.
    #[must_use]
    pub fn is_wiped_volume(&self) -> bool {
        self.remains && matches!(self.kind, Kind::Zeros | Kind::Unknown)
    }

    /// Whether it may be a tar archive, which has no signature in its old format.
    #[must_use]
    pub fn may_be_archive(&self) -> bool {
        match self.kind {
            Kind::Other(s) => s.is_archive(),
            Kind::Zeros | Kind::Unknown => !self.remains,
            Kind::Unfinished | Kind::F2fs => false,
        }
    }

    /// A sentence about the device of that name, with the next step.
    #[must_use]
    pub fn about(&self, name: &str) -> String {
        let step = match self.kind {
            Kind::Other(s) => s.step(),
            _ => "",
        };
        let rescue = if self.remains && self.kind != Kind::F2fs {
            format!(": `segno rescue {name} DIR` copies its files")
        } else {
            String::new()
        };
        match self.kind {
            Kind::Other(_) | Kind::Unknown if !self.remains => {
                format!("{name} {self}, not an F2FS volume{step}")
            }
            _ => format!("{name} {self}{rescue}"),
        }
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Unfinished => {
                f.write_str("was being formatted when that was interrupted; run the format again")?
            }
            Kind::F2fs => return f.write_str("holds an F2FS volume"),
            Kind::Other(s) => write!(f, "holds {}", s.name)?,
            _ if self.remains => return f.write_str("has remains of an F2FS volume without superblock"),
            Kind::Zeros => return f.write_str("is empty: there are only zeros where it was read"),
            Kind::Unknown => return f.write_str("holds data that is not recognised"),
        }
        if self.remains { f.write_str(", and has remains of an F2FS volume") } else { Ok(()) }
    }
}

/// The bounded search.
struct Search<'a> {
    device: &'a dyn BlockDevice,
    /// Those that have to be written in order.
    zones: Vec<Zone>,
    remains: bool,
    zeros: bool,
}

impl Search<'_> {
    fn all(&mut self) -> io::Result<()> {
        let blocks = self.device.block_count();
        let head = HEAD.min(blocks);
        for at in (0..head).step_by(PIECE as usize) {
            self.piece(at..head.min(at + PIECE))?;
        }
        let step = ((blocks - head) / SAMPLES).max(PIECE);
        for end in (0..SAMPLES).map_while(|i| (blocks - head).checked_sub(i * step)).map(|left| head + left) {
            self.piece(end.saturating_sub(PIECE).max(head)..end)?;
        }
        // With large sections or zones the first checkpoint pack is after the head.
        let starts = (0..u64::BITS).map(|n| 1u64 << n).filter(|at| (HEAD..blocks).contains(at));
        starts.into_iter().try_for_each(|at| self.piece(at..at + 1))
    }

    /// An empty zone may read as anything.
    fn is_empty_zone(&self, at: u64) -> bool {
        let next = self.zones.partition_point(|z| z.start + z.blocks <= at);
        self.zones.get(next).is_some_and(|z| z.start <= at && z.condition == ZoneCondition::Empty)
    }

    fn piece(&mut self, range: Range<u64>) -> io::Result<()> {
        let settled = self.remains && !self.zeros;
        if settled || self.is_empty_zone(range.start) || self.is_empty_zone(range.end.saturating_sub(1)) {
            return Ok(());
        }
        let mut blocks = vec![Block::zeroed(); (range.end - range.start) as usize];
        self.device.read(range.start, &mut blocks)?;
        self.zeros &= blocks.iter().all(Block::is_zero);
        self.remains |= remains::are_in(&blocks, range.start);
        Ok(())
    }
}

/// Bytes at a byte offset of the blocks that start a device.
fn bytes(blocks: &[Block], offset: usize) -> &[u8] {
    blocks.get(offset / BLOCK_SIZE).and_then(|b| b.0.get(offset % BLOCK_SIZE..)).unwrap_or_default()
}
