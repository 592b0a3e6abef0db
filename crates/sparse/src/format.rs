//! Headers as they are stored.
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First word of a sparse image.
pub const MAGIC: u32 = 0xED26_FF3A;
/// Bytes of a block unless chosen otherwise.
pub const DEFAULT_BLOCK_SIZE: u32 = 4096;
pub(crate) const MAJOR: u16 = 1;
pub(crate) const HEADER_BYTES: usize = size_of::<RawHeader>();
pub(crate) const CHUNK_HEADER_BYTES: usize = size_of::<RawChunk>();

pub(crate) const RAW: u16 = 0xCAC1;
pub(crate) const FILL: u16 = 0xCAC2;
pub(crate) const DONT_CARE: u16 = 0xCAC3;
pub(crate) const CRC32: u16 = 0xCAC4;

/// `sparse_header_t`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawHeader {
    pub magic: U32,
    pub major_version: U16,
    pub minor_version: U16,
    pub file_header_size: U16,
    pub chunk_header_size: U16,
    pub block_size: U32,
    pub total_blocks: U32,
    pub total_chunks: U32,
    pub image_checksum: U32,
}
const _: () = assert!(HEADER_BYTES == 28);

/// `chunk_header_t`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawChunk {
    pub kind: U16,
    pub reserved: U16,
    /// Blocks of the raw image in the chunk.
    pub blocks: U32,
    /// Bytes of the chunk in the file, header included.
    pub total_bytes: U32,
}
const _: () = assert!(CHUNK_HEADER_BYTES == 12);

impl RawHeader {
    pub(crate) fn new(block_size: u32, total_blocks: u32, total_chunks: u32) -> Self {
        Self {
            magic: U32::new(MAGIC),
            major_version: U16::new(MAJOR),
            minor_version: U16::new(0),
            file_header_size: U16::new(HEADER_BYTES as u16),
            chunk_header_size: U16::new(CHUNK_HEADER_BYTES as u16),
            block_size: U32::new(block_size),
            total_blocks: U32::new(total_blocks),
            total_chunks: U32::new(total_chunks),
            image_checksum: U32::new(0),
        }
    }
}
