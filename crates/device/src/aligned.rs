//! Buffers aligned to their block size, which `O_DIRECT` wants and cached blocks are not.
use segno_format::{BLOCK_SIZE, Block};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// A block where direct I/O can reach it.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
pub struct Aligned([u8; BLOCK_SIZE]);

/// Room for so many blocks.
pub fn zeroed(blocks: usize) -> Vec<Aligned> {
    vec![Aligned::new_zeroed(); blocks]
}

/// The blocks, gathered.
pub fn copy_of(blocks: &[&Block]) -> Vec<Aligned> {
    blocks.iter().map(|b| Aligned(b.0)).collect()
}
