//! The data of compressed files.
use crate::file::{Last, in_units};
use crate::{Error, Inode, ReadAt, Volume};
use alloc::vec;
use alloc::vec::Vec;
use segno_codec::{Algorithm, CodecError, decompress_portable};
use segno_format::cluster::{CHECKSUM, compressed_data};
use segno_format::{BLOCK_SIZE, BlockAddr, Corrupt, Structure};

impl<R: ReadAt> Volume<R> {
    /// Reads a file of whose clusters some are compressed.
    pub(crate) fn clusters(&self, file: &Inode, offset: u64, into: &mut [u8]) -> Result<(), Error<R::Error>> {
        let size = cluster_blocks(file) * BLOCK_SIZE;
        let mut last = None;
        in_units(size, offset, into, |cluster, within, part| {
            let start = cluster * size as u64;
            match self.stored(file, start / BLOCK_SIZE as u64, &mut last)? {
                Some(stored) => {
                    let plain = decompressed(file, &stored)?;
                    part.copy_from_slice(plain.get(within).unwrap_or_default());
                    Ok(())
                }
                None => self.blocks(file, start + within.start as u64, part),
            }
        })
    }

    /// The stored blocks of the cluster that begins at a block of the file; `None` if it is not compressed.
    fn stored(&self, file: &Inode, first: u64, last: &mut Last) -> Result<Option<Vec<u8>>, Error<R::Error>> {
        if self.address(file, first, last)? != BlockAddr::COMPRESS {
            return Ok(None);
        }
        let mut stored = Vec::new();
        for block in (first..).take(cluster_blocks(file)).skip(1) {
            let Some(block) = self.file_block(file, block, last)? else { break };
            stored.extend_from_slice(&block.0);
        }
        Ok(Some(stored))
    }
}

/// Blocks of a cluster; the layout of the inode was verified.
fn cluster_blocks(file: &Inode) -> usize {
    1 << file.raw().extra().i_log_cluster_size.min(8)
}

fn decompressed<E>(file: &Inode, stored: &[u8]) -> Result<Vec<u8>, Error<E>> {
    let (ino, extra) = (file.ino.0, file.raw().extra());
    let corrupt = |why, found: usize, expected: usize| {
        Corrupt::nid(Structure::Cluster, ino, why, found as u64, expected as u64)
    };
    let data = compressed_data(ino, stored, extra.i_compress_flag.get() & CHECKSUM != 0)?;
    let id = extra.i_compress_algorithm;
    let algorithm = Algorithm::from_disk(id)
        .ok_or_else(|| corrupt("compression algorithm", id.into(), Algorithm::ALL.len() - 1))?;
    let mut plain = vec![0; cluster_blocks(file) * BLOCK_SIZE];
    match decompress_portable(algorithm, data, &mut plain) {
        Ok(()) => Ok(plain),
        Err(CodecError::NotBuilt(algorithm)) => Err(Error::NotBuilt { ino, algorithm }),
        Err(CodecError::TooShort { len, expected }) => {
            Err(corrupt("size when decompressed", len, expected).into())
        }
        Err(_) => Err(corrupt("compressed stream", 0, 1).into()),
    }
}
