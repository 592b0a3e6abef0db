//! Buffers aligned to the block size as `O_DIRECT` requires; cached blocks are not.
use segno_format::{BLOCK_SIZE, Block};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// A block aligned for direct I/O.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
pub(crate) struct Aligned([u8; BLOCK_SIZE]);

/// Zeroed buffers for a number of blocks.
pub(crate) fn zeroed(blocks: usize) -> Vec<Aligned> {
    vec![Aligned::new_zeroed(); blocks]
}

/// Aligned copies of blocks.
pub(crate) fn copy_of(blocks: &[&Block]) -> Vec<Aligned> {
    blocks.iter().map(|b| Aligned(b.0)).collect()
}
