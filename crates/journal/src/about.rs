//! A journal by itself: what it says it is, whatever became of its volume, and getting rid of it.
use crate::area::Area;
use crate::error::{Error, Result};
use crate::journal::{Journal, read_superblock};
use crate::ring::{MIN_RING, SUPERBLOCKS};
use segno_format::{BLOCK_SIZE, Block};

/// Blocks written at once.
const RUN: u64 = 256;

/// What a journal's superblock says.
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
    /// What a journal in `area` says; [`Error::Absent`] if there is none.
    pub fn read(area: &Area) -> Result<Self> {
        let s = read_superblock(area)?;
        Ok(Self {
            volume: s.volume,
            bytes: s.blocks * BLOCK_SIZE as u64,
            clean: s.clean,
            checkpoint: s.anchor.cp.version,
            mounts: s.mount,
        })
    }
}

impl Journal {
    /// The smallest area that holds one, in blocks.
    pub const LEAST_BLOCKS: u64 = SUPERBLOCKS + MIN_RING;

    /// Erases the journal in `area`, durably. What it holds beyond the volume's checkpoint is lost.
    pub fn discard(area: &Area) -> Result<()> {
        let zero = Block::zeroed();
        if area.blocks() < Self::LEAST_BLOCKS {
            return Err(Error::TooSmall { blocks: area.blocks(), least: Self::LEAST_BLOCKS });
        }
        area.write(0, &[&zero; SUPERBLOCKS as usize])?;
        area.flush()
    }
}

impl Area {
    /// Writes all of it, with zeros. On an image file, commits otherwise have to wait until the host has allocated what they
    /// write to.
    pub fn prepare(&self) -> Result<()> {
        let zero = Block::zeroed();
        for at in (0..self.blocks()).step_by(RUN as usize) {
            self.write(at, &vec![&zero; RUN.min(self.blocks() - at) as usize])?;
        }
        self.flush()
    }
}
