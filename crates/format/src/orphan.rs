//! Orphan blocks: inodes without a name that a crash must not leak.
use crate::{Corrupt, Ino, Structure};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Inode numbers in one block of 4096 bytes.
pub const ORPHANS_PER_BLOCK: usize = 1020;

/// `struct f2fs_orphan_block` of 4096 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawOrphanBlock {
    /// Inodes without a name that were still open.
    pub ino: [U32; ORPHANS_PER_BLOCK],
    /// The rest.
    pub footer: RawOrphanFooter,
}
const _: () = assert!(size_of::<RawOrphanBlock>() == 4096);

/// The end of an orphan block of any size.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawOrphanFooter {
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

/// The inode numbers listed in an orphan block of any size; `at` is the block's address, for the error.
pub fn orphans(block: &[u8], at: u64) -> Result<impl Iterator<Item = Ino> + '_, Corrupt> {
    let (room, n) = match RawOrphanFooter::ref_from_suffix(block) {
        Ok((inos, footer)) => (<[U32]>::ref_from_bytes(inos).unwrap_or_default(), footer.entry_count.get()),
        Err(_) => (&[][..], 0),
    };
    let listed = room.get(..n as usize).ok_or_else(|| {
        Corrupt::block(Structure::OrphanBlock, at, "entry count", n.into(), room.len() as u64)
    })?;
    Ok(listed.iter().map(|i| Ino(i.get())))
}
