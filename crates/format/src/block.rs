//! One 4 KiB block.
//!
//! The type is not aligned to its size: in an `Arc`, that would double the memory of each cached block. The
//! device copies blocks if `O_DIRECT` needs alignment.
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes in a block.
pub const BLOCK_SIZE: usize = 4096;
/// F2FS magic; also the seed of most checksums.
pub const F2FS_MAGIC: u32 = 0xF2F5_2010;
/// Blocks in a segment, fixed by the format.
pub const BLOCKS_PER_SEG: u32 = 512;
/// Slots in a direct node and nids in an indirect node.
pub const ADDRS_PER_BLOCK: u32 = 1018;
/// Longest file name in bytes.
pub const NAME_MAX: usize = 255;

/// The unit of all I/O.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(8))]
pub struct Block(pub [u8; BLOCK_SIZE]);

impl Block {
    /// A block of zeros.
    #[must_use]
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// The first 4096 bytes; zeros if there are fewer.
    #[must_use]
    pub fn first_of(bytes: &[u8]) -> Self {
        Self::read_from_prefix(bytes).map_or_else(|_| Self::zeroed(), |(block, _)| block)
    }

    /// The whole block seen as one on-disk structure of exactly 4096 bytes.
    #[must_use]
    pub fn view<T: FromBytes + KnownLayout + Immutable + Unaligned>(&self) -> &T {
        const { assert!(size_of::<T>() == BLOCK_SIZE) };
        match T::ref_from_bytes(&self.0) {
            Ok(v) => v,
            // Unreachable: the size is asserted above and `Unaligned` types have no alignment.
            Err(_) => unreachable!("size of a block structure is checked at compile time"),
        }
    }

    /// The whole block as one mutable on-disk structure of exactly 4096 bytes.
    pub fn view_mut<T: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned>(&mut self) -> &mut T {
        const { assert!(size_of::<T>() == BLOCK_SIZE) };
        match T::mut_from_bytes(&mut self.0) {
            Ok(v) => v,
            Err(_) => unreachable!("size of a block structure is checked at compile time"),
        }
    }

    /// Whether every byte is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        // As a whole, which is a comparison of memory and not of bytes.
        self.0 == [0; BLOCK_SIZE]
    }

    /// The little-endian u32 at a byte offset; 0 past the end.
    #[must_use]
    pub fn u32_at(&self, off: usize) -> u32 {
        word(&self.0, off)
    }

    /// Stores a little-endian u32 at a byte offset; ignored past the end.
    pub fn set_u32_at(&mut self, off: usize, v: u32) {
        set_word(&mut self.0, off, v);
    }
}

/// The little-endian u32 at a byte offset; 0 past the end.
#[must_use]
pub fn word(bytes: &[u8], off: usize) -> u32 {
    bytes.get(off..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}

/// Stores a little-endian u32 at a byte offset; ignored past the end.
pub fn set_word(bytes: &mut [u8], off: usize, v: u32) {
    if let Some(place) = bytes.get_mut(off..).and_then(|rest| rest.first_chunk_mut()) {
        *place = v.to_le_bytes();
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Block {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl core::fmt::Debug for Block {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Block({:08x}..)", self.u32_at(0))
    }
}
