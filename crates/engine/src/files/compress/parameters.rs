//! Compression parameters of a file, kept in its inode.
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::options::Compression;
use segno_codec::{Algorithm, ClusterEncoder};
use segno_format::cluster::CHECKSUM;
use segno_format::inode::RawInode;
use zerocopy::little_endian::U16;

/// The bits of `i_compress_flag` with the level.
const LEVEL_SHIFT: u32 = 8;

/// `i_compress_algorithm`, `i_log_cluster_size` and `i_compress_flag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    pub algorithm: u8,
    pub log_cluster: u8,
    pub flag: u16,
}

impl Parameters {
    /// Parameters of new compressed files.
    pub fn of_mount(c: &Compression) -> Self {
        let flag = if c.checksum { CHECKSUM } else { 0 };
        Self { algorithm: c.algorithm.to_disk(), log_cluster: c.log_cluster, flag }.with_level(c.level)
    }
    pub fn with_level(self, level: u8) -> Self {
        Self { flag: u16::from(level) << LEVEL_SHIFT | (self.flag & CHECKSUM), ..self }
    }
    pub fn of(i: &RawInode) -> Self {
        let extra = i.extra();
        Self {
            algorithm: extra.i_compress_algorithm,
            log_cluster: extra.i_log_cluster_size,
            flag: extra.i_compress_flag.get(),
        }
    }
    pub fn store(self, i: &mut RawInode) {
        i.edit_extra(|e| {
            e.i_compress_algorithm = self.algorithm;
            e.i_log_cluster_size = self.log_cluster;
            e.i_compress_flag = U16::new(self.flag);
        });
    }
}

/// The algorithm of a file, and whether its clusters have checksums.
pub(super) fn decoder(inode: &Inode) -> Result<(Algorithm, bool)> {
    let p = inode.get(Parameters::of);
    let algorithm = Algorithm::from_disk(p.algorithm)
        .ok_or(Error::NotSupported("a compression algorithm unknown to this version"))?;
    Ok((algorithm, p.flag & CHECKSUM != 0))
}

/// The encoder of a file; `None` if its algorithm is unknown. A level that the algorithm lacks does not matter to readers.
pub(super) fn encoder(inode: &Inode) -> Option<ClusterEncoder> {
    let p = inode.get(Parameters::of);
    let (algorithm, checksum) = decoder(inode).ok()?;
    let level = (p.flag >> LEVEL_SHIFT) as u8;
    let new = |level| ClusterEncoder::new(algorithm, level, p.log_cluster, checksum).ok();
    new(level).or_else(|| new(0))
}
