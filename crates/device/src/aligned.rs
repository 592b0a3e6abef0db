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

/// Aligned memory for consecutive blocks that a device can write to directly. Allocated once and reused.
pub struct Buffer(Vec<Aligned>);

impl Buffer {
    /// Allocates memory for a number of blocks.
    #[must_use]
    pub fn new(blocks: usize) -> Self {
        Self(zeroed(blocks))
    }

    /// Makes it shorter, or longer again. Its memory stays, unless that is too small.
    pub fn resize(&mut self, blocks: usize) {
        self.0.resize_with(blocks, Aligned::new_zeroed);
    }

    /// Blocks that it has memory for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// The blocks.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        <[Block]>::ref_from_bytes(self.0.as_slice().as_bytes()).unwrap_or_default()
    }

    pub(crate) fn blocks_mut(&mut self) -> &mut [Block] {
        <[Block]>::mut_from_bytes(self.0.as_mut_slice().as_mut_bytes()).unwrap_or_default()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_slice().as_mut_bytes()
    }
}
