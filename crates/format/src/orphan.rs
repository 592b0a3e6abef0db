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
    pub ino: [U32; ORPHANS_PER_BLOCK],
    pub reserved: U32,
    pub blk_addr: U16,
    pub blk_count: U16,
    pub entry_count: U32,
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
