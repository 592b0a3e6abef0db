//! Compressed clusters: one entry point for the four algorithms.
//!
//! LZ4 blocks and Zstandard frames are decoded by their crates. The kernel does not store the content size in a
//! frame's header, so nothing here reads it: the caller's buffer, one cluster long, is the limit.

use crate::algorithm::Algorithm;
use crate::error::CodecError;
use crate::{lzo, zstd};

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

/// Decodes into the second slice and returns the number of bytes.
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
