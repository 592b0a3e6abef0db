//! Compressed clusters: one entry point for the four algorithms.
//!
//! LZ4 blocks and Zstandard frames are decoded by their crates. The kernel does not store the content size in a
//! frame's header, so nothing here reads it: the caller's buffer, one cluster long, is the limit.

use core::fmt;

use crate::error::CodecError;
use crate::{lzo, zstd};

/// How the clusters of a file are compressed (`i_compress_algorithm`).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Algorithm {
    /// LZO1X.
    Lzo = 0,
    /// An LZ4 block without a frame.
    Lz4 = 1,
    /// One Zstandard frame.
    Zstd = 2,
    /// LZO1X with the kernel's runs of zeros.
    LzoRle = 3,
}

impl Algorithm {
    /// All of them, by their numbers.
    pub const ALL: [Self; 4] = [Self::Lzo, Self::Lz4, Self::Zstd, Self::LzoRle];

    /// The algorithm an inode names, if it is a known one.
    #[must_use]
    pub fn from_disk(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// The number that inodes store.
    #[must_use]
    pub fn to_disk(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lzo => "lzo",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::LzoRle => "lzo-rle",
        })
    }
}

/// Decodes the data of one cluster, which has to fill `out` exactly.
///
/// After an error the contents of `out` are unspecified.
pub fn decompress(algorithm: Algorithm, cdata: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    decode(algorithm, cdata, out, zstd::decompress)
}

/// As [`decompress`], without a library in C.
pub fn decompress_portable(algorithm: Algorithm, cdata: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    decode(algorithm, cdata, out, zstd::decompress_portable)
}

/// Fills the front of the second slice, and says how many bytes that are.
type Decoder = fn(&[u8], &mut [u8]) -> Result<usize, CodecError>;

fn decode(algorithm: Algorithm, cdata: &[u8], out: &mut [u8], zstd: Decoder) -> Result<(), CodecError> {
    let len = match algorithm {
        Algorithm::Lzo | Algorithm::LzoRle => lzo::decompress(cdata, out),
        Algorithm::Lz4 => lz4(cdata, out),
        Algorithm::Zstd => zstd(cdata, out),
    }?;
    if len == out.len() { Ok(()) } else { Err(CodecError::TooShort { len, expected: out.len() }) }
}

#[cfg(not(feature = "lz4"))]
fn lz4(_: &[u8], _: &mut [u8]) -> Result<usize, CodecError> {
    Err(CodecError::NotBuilt(Algorithm::Lz4))
}

#[cfg(feature = "lz4")]
fn lz4(cdata: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
    use lz4_flex::block::DecompressError;
    lz4_flex::block::decompress_into(cdata, out).map_err(|error| {
        let why = match error {
            DecompressError::OutputTooSmall { .. } => return CodecError::TooLong,
            DecompressError::LiteralOutOfBounds | DecompressError::ExpectedAnotherByte => {
                return CodecError::Truncated;
            }
            DecompressError::OffsetZero => "match at distance zero",
            DecompressError::OffsetOutOfBounds => "match begins before the output",
            _ => "not an LZ4 block",
        };
        CodecError::Malformed { at: None, why }
    })
}

#[cfg(test)]
mod tests;
