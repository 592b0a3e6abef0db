//! Facts in the superblock of a journal, known without its volume.
use crate::area::Area;
use crate::error::Result;
use crate::ring::SUPERBLOCKS;
use crate::superblock::JournalSuperblock;
use segno_format::BLOCK_SIZE;

/// Facts from a journal's superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The uuid of its volume.
    pub volume: [u8; 16],
    /// Bytes of the ring.
    pub bytes: u64,
    /// Nothing is to be replayed: the volume was unmounted, or never mounted.
    pub clean: bool,
    /// The checkpoint that it followed when the superblock was written.
    pub checkpoint: u64,
    /// Mounts that used it.
    pub mounts: u32,
}

impl About {
    /// Reads the superblock of the journal in `area`; [`Error::Absent`](crate::Error::Absent) without one.
    pub fn read(area: &Area) -> Result<Self> {
        let s = JournalSuperblock::read(area)?;
        Ok(Self {
            volume: s.volume,
            bytes: s.blocks.saturating_mul(BLOCK_SIZE as u64),
            clean: s.clean,
            checkpoint: s.anchor.cp.version,
            mounts: s.mount,
        })
    }

    /// Bytes of its area: superblocks and ring.
    #[must_use]
    pub fn area_bytes(&self) -> u64 {
        self.blocks().saturating_mul(BLOCK_SIZE as u64)
    }

    /// Blocks of its area: superblocks and ring.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        (self.bytes / BLOCK_SIZE as u64).saturating_add(SUPERBLOCKS)
    }
}
