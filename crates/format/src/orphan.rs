//! Orphan blocks: inodes without a name that a crash must not leak.
use crate::{Corrupt, Nid, Structure};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Inode numbers in one block.
pub const ORPHANS_PER_BLOCK: usize = 1020;

/// `struct f2fs_orphan_block`.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawOrphanBlock {
    /// Inodes without a name that were still open.
    pub ino: [U32; ORPHANS_PER_BLOCK],
    /// Unused.
    pub reserved: U32,
    /// Place of this block among the orphan blocks, from 1 on.
    pub blk_addr: U16,
    /// Number of orphan blocks.
    pub blk_count: U16,
    /// Entries in use.
    pub entry_count: U32,
    /// Checksum of the block.
    pub check_sum: U32,
}
const _: () = assert!(size_of::<RawOrphanBlock>() == 4096);

impl RawOrphanBlock {
    /// The inode numbers listed; `at` is the block's address, for the error.
    pub fn inos(&self, at: u64) -> Result<impl Iterator<Item = Nid> + '_, Corrupt> {
        let n = self.entry_count.get() as usize;
        let entries = self.ino.get(..n).ok_or_else(|| {
            Corrupt::block(Structure::OrphanBlock, at, "entry count", n as u64, ORPHANS_PER_BLOCK as u64)
        })?;
        Ok(entries.iter().map(|i| Nid(i.get())))
    }
}
