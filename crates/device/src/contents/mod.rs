//! Names the contents of a device: the one recogniser of all commands, of the library and of its bindings.
pub(crate) mod signatures;

use segno_format::{BLOCK_SIZE, Block};
use signatures::Signature;
use std::fmt;

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
    pub(crate) kind: Kind,
    /// Nodes or checkpoints of an F2FS volume were found.
    pub(crate) remains: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
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
    /// Contents of a device that could not be searched.
    pub(crate) fn unknown() -> Self {
        Self { kind: Kind::Unknown, remains: false }
    }

    /// Of a place without blocks.
    #[must_use]
    pub fn nothing() -> Self {
        Self { kind: Kind::Zeros, remains: false }
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
            Kind::Other(s) => s.step(name),
            _ => String::new(),
        };
        let rescue = if self.remains && self.kind != Kind::F2fs {
            format!(": `segno rescue {name} DIR` copies its files")
        } else {
            String::new()
        };
        match self.kind {
            Kind::Other(s) if self.remains && s.has_parts() => {
                format!(
                    "{name} {self}{step}; if none has the volume, `segno rescue {name} DIR` copies its files"
                )
            }
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
        let may_be_in_part = matches!(self.kind, Kind::Other(s) if s.has_parts());
        if self.remains && !may_be_in_part {
            f.write_str(", and has remains of an F2FS volume")
        } else {
            Ok(())
        }
    }
}

/// Bytes at a byte offset of the blocks that start a device.
fn bytes(blocks: &[Block], offset: usize) -> &[u8] {
    blocks.get(offset / BLOCK_SIZE).and_then(|b| b.0.get(offset % BLOCK_SIZE..)).unwrap_or_default()
}
