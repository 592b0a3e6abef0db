//! Both copies of the superblock.
use super::unreadable;
use crate::Reader;
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES, Superblock};
use segno_format::{Corrupt, Structure};

/// Both copies of the superblock, each with its verdict.
pub struct Superblocks {
    /// As stored; `None` where the block cannot be read.
    pub raw: [Option<RawSuperblock>; 2],
    /// As parsed.
    pub parsed: [Result<Superblock, Corrupt>; 2],
}

impl Superblocks {
    /// Reads both.
    #[must_use]
    pub fn load(reader: &Reader<'_>) -> Self {
        let raw = SUPERBLOCK_COPIES.map(|a| reader.block(a).map(|b| RawSuperblock::from_block(&b.0)));
        let parse = |copy: u32| {
            let raw = raw.get(copy as usize).copied().flatten();
            raw.ok_or_else(|| unreadable(Structure::Superblock, copy)).and_then(|sb| sb.parse(copy.into()))
        };
        Self { raw, parsed: [parse(0), parse(1)] }
    }

    /// The copy that a mount uses: the first valid one.
    #[must_use]
    pub fn in_force(&self) -> Option<&Superblock> {
        self.parsed.iter().find_map(|p| p.as_ref().ok())
    }
}
