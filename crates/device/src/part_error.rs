//! Why a part of a file or device cannot be used.
use std::fmt;

/// Kinds of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// GUID partition table.
    Gpt,
    /// Partition table of a master boot record.
    Mbr,
    /// Metadata of an Android super image, as liblp writes them.
    Super,
}

/// A defect of a partition table, or of the choice of an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message states its case")]
pub enum PartError {
    #[error("has no partition table")]
    NoTable,
    #[error("has a damaged {kind}: {why}")]
    Damaged { kind: TableKind, why: String },
    #[error("has no partition {name:?}; it has {}", list(.have))]
    NoEntry { name: String, have: Vec<String> },
    #[error("has several partitions {name:?}: {}; name one by its number", list(.which))]
    Ambiguous { name: String, which: Vec<String> },
    #[error("has partitions that overlap: {one} and {other}; --offset with --length names bytes")]
    Overlap { one: String, other: String },
    #[error("ends at byte {len}, before the part from {start} to {end}; was it copied in full?")]
    Beyond { start: u64, end: u64, len: u64 },
    #[error("has nothing in that part: its length is 0")]
    Empty,
    #[error(
        "has neither a partition nor a usable superblock of F2FS at byte {offset}: --length says where the volume ends"
    )]
    NoEnd { offset: u64 },
    #[error("has that partition in pieces that are no multiples of 4096 bytes")]
    Pieces,
    #[error("has that partition in several pieces, which cannot be used here")]
    Several,
    #[error("has that partition on several devices, or without storage of its own")]
    Elsewhere,
    #[error("is zoned: parts of it cannot be used")]
    Zoned,
}

/// Names are data of the image: printed with escapes.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 16;
    let more = if names.len() > SHOWN { ", …" } else { "" };
    let shown: Vec<String> = names.iter().take(SHOWN).cloned().collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") + more }
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpt => "partition table (GPT)",
            Self::Mbr => "partition table (MBR)",
            Self::Super => "Android super image",
        })
    }
}
