//! Compression of clusters into the blocks that are stored.
//!
//! A stored cluster is a header of 24 bytes (`struct compress_data`), the stream of the algorithm, and zeros
//! up to the end of the last block. The kernel's decoders accept these streams: LZ4 blocks without a frame;
//! Zstandard frames without content size and checksum, whose window is not larger than the cluster; plain
//! LZO1X, which is a valid LZO-RLE stream too. Equal input gives equal output: the versions of the libraries
//! are part of the format of an image.

use crate::{Algorithm, lzo};
use core::fmt;
use segno_format::crc;
use zstd_safe::{CCtx, CParameter};

#[cfg(test)]
mod tests;

const BLOCK: usize = 4096;
const HEADER: usize = 24;
/// Seed of checksums, `F2FS_SUPER_MAGIC`.
const SEED: u32 = 0xF2F5_2010;
/// `F2FS_ZSTD_DEFAULT_CLEVEL`.
const ZSTD_DEFAULT: u8 = 1;
const ZSTD_MAX: u8 = 22;
/// Levels of the kernel's LZ4HC. liblz4 has 12, and treats higher ones as 12.
const LZ4HC: core::ops::RangeInclusive<u8> = 3..=16;
const LZ4HC_LIBRARY_MAX: u8 = 12;

/// A compression level that the algorithm does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{algorithm} has no level {level}; {allowed}")]
pub struct LevelError {
    algorithm: Algorithm,
    level: u8,
    allowed: &'static str,
}

enum Compressor {
    Lzo,
    Lz4,
    Lz4Hc(u8),
    Zstd(CCtx<'static>),
}

/// Compresses the clusters of files with the same parameters.
pub struct ClusterEncoder {
    compressor: Compressor,
    checksum: bool,
    /// Bytes of a cluster.
    len: usize,
    stored: Vec<u8>,
}

impl fmt::Debug for ClusterEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterEncoder").field("checksum", &self.checksum).finish_non_exhaustive()
    }
}

/// Checks a level without making an encoder; 0 is the algorithm's default.
pub fn check_level(algorithm: Algorithm, level: u8) -> Result<(), LevelError> {
    let (good, allowed) = match algorithm {
        Algorithm::Lzo | Algorithm::LzoRle => (false, "it has no levels"),
        Algorithm::Lz4 => (LZ4HC.contains(&level), "3 to 16 are possible"),
        Algorithm::Zstd => (level <= ZSTD_MAX, "1 to 22 are possible"),
    };
    if good || level == 0 { Ok(()) } else { Err(LevelError { algorithm, level, allowed }) }
}

impl ClusterEncoder {
    /// An encoder for clusters of `1 << log_blocks` blocks; level 0 is the algorithm's default.
    pub fn new(algorithm: Algorithm, level: u8, log_blocks: u8, checksum: bool) -> Result<Self, LevelError> {
        check_level(algorithm, level)?;
        let compressor = match (algorithm, level) {
            (Algorithm::Lzo | Algorithm::LzoRle, _) => Compressor::Lzo,
            (Algorithm::Lz4, 0) => Compressor::Lz4,
            (Algorithm::Lz4, level) => Compressor::Lz4Hc(level.min(LZ4HC_LIBRARY_MAX)),
            (Algorithm::Zstd, level) => Compressor::Zstd(zstd(level, log_blocks)),
        };
        Ok(Self { compressor, checksum, len: BLOCK << log_blocks.min(8), stored: Vec::new() })
    }

    /// The whole blocks to store for a cluster, or `None` if they would not be fewer than the cluster's own;
    /// the cluster is then stored plain. The caller fills the last page with zeros after the end of the file.
    pub fn encode(&mut self, cluster: &[u8]) -> Option<&[u8]> {
        if cluster.len() != self.len {
            return None;
        }
        let most = self.len - BLOCK - HEADER;
        // The bound of lz4_flex is a tenth more than the input. LZO grows by less: up to one byte in 255.
        let bound = lz4_flex::block::get_maximum_output_size(self.len);
        self.stored.clear();
        self.stored.resize(HEADER + bound, 0);
        let out = self.stored.get_mut(HEADER..)?;
        let n = match &mut self.compressor {
            Compressor::Lzo => {
                let stream = lzo::compress(cluster);
                out.get_mut(..stream.len())?.copy_from_slice(&stream);
                stream.len()
            }
            Compressor::Lz4 => lz4_flex::block::compress_into(cluster, out).ok()?,
            Compressor::Lz4Hc(level) => {
                let mode = lz4::block::CompressionMode::HIGHCOMPRESSION((*level).into());
                lz4::block::compress_to_buffer(cluster, Some(mode), false, out.get_mut(..most)?).ok()?
            }
            // The frame does not fit when it is too large to be of use.
            Compressor::Zstd(context) => context.compress2(out.get_mut(..most)?, cluster).ok()?,
        };
        if n == 0 || n > most {
            return None;
        }
        self.stored.truncate(HEADER + n);
        let data = self.stored.get(HEADER..)?;
        let sum = if self.checksum { crc(SEED, data) } else { 0 };
        let header = [(n as u32).to_le_bytes(), sum.to_le_bytes()].concat();
        self.stored.get_mut(..header.len())?.copy_from_slice(&header);
        self.stored.resize((HEADER + n).next_multiple_of(BLOCK), 0);
        Some(&self.stored)
    }
}

/// A context whose frames the kernel can read: its workspace has room for a window of one cluster.
fn zstd(level: u8, log_blocks: u8) -> CCtx<'static> {
    let level = if level == 0 { ZSTD_DEFAULT } else { level };
    let mut context = CCtx::create();
    let parameters = [
        CParameter::CompressionLevel(level.into()),
        CParameter::WindowLog(12 + u32::from(log_blocks.min(8))),
        CParameter::ContentSizeFlag(false),
        CParameter::ChecksumFlag(false),
        CParameter::DictIdFlag(false),
    ];
    for parameter in parameters {
        // All values are within the bounds of the library.
        let set = context.set_parameter(parameter);
        assert!(set.is_ok(), "{parameter:?}");
    }
    context
}
