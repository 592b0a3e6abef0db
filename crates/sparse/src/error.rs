//! Why a sparse image cannot be read or written.
use std::io;

/// Everything that can go wrong; places are bytes of the sparse file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message states its case")]
pub enum SparseError {
    #[error("not an Android sparse image: the magic number is {found:#010x}")]
    Magic { found: u32 },
    #[error("sparse image of version {major}.{minor}: only version 1 is known")]
    Version { major: u16, minor: u16 },
    #[error("sparse image: {field} is {found}, {rule}")]
    Header { field: &'static str, found: u64, rule: &'static str },
    #[error("sparse image: chunk {number} at byte {at}: type {kind:#06x} is not known")]
    ChunkType { number: u32, at: u64, kind: u16 },
    #[error(
        "sparse image: chunk {number} at byte {at} has {found} bytes where its type and blocks need {needed}"
    )]
    ChunkLength { number: u32, at: u64, found: u64, needed: u64 },
    #[error(
        "sparse image: chunk {number} at byte {at} ends {missing} bytes behind the end of the file: it is truncated"
    )]
    Truncated { number: u32, at: u64, missing: u64 },
    #[error("sparse image: chunk {number} at byte {at} reaches block {end} of an image of {total} blocks")]
    TooManyBlocks { number: u32, at: u64, end: u64, total: u32 },
    #[error("sparse image: its chunks have {found} blocks, the header promises {total}")]
    MissingBlocks { found: u64, total: u32 },
    #[error("sparse image: the checksum before byte {at} is {computed:#010x}, the file says {stored:#010x}")]
    Checksum { at: u64, stored: u32, computed: u32 },
    #[error("the parts of a split image have {first} and {other} bytes: they belong to different images")]
    SizesDiffer { first: u64, other: u64 },
    #[error(
        "an image of {bytes} bytes does not fit {blocks} blocks of {block_size} bytes: use larger blocks"
    )]
    TooLarge { bytes: u64, blocks: u64, block_size: u32 },
    #[error("block size {block_size} is not a multiple of 4 between 4 and 1 GiB")]
    BlockSize { block_size: u32 },
    #[error("sparse image: cannot {action}: {source}")]
    Io { action: &'static str, source: io::Error },
}

impl SparseError {
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

impl From<SparseError> for io::Error {
    fn from(e: SparseError) -> Self {
        match e {
            SparseError::Io { source, .. } => source,
            other => Self::new(io::ErrorKind::InvalidData, other),
        }
    }
}
