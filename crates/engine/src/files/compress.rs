//! Reading compressed files, cluster by cluster.
use super::Files;
use super::Inode;
use super::block::unused_block;
use super::read::Window;
use crate::error::{Error, Result};
use crate::nodes::Place;
use segno_codec::{Algorithm, decompress};
use segno_format::cluster::{CHECKSUM, compressed_data};
use segno_format::inode::RawInode;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Corrupt, Structure};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Compression parameters of a file.
#[derive(Clone, Copy, Debug)]
struct Method {
    algorithm: Algorithm,
    checksum: bool,
    /// Blocks in a cluster.
    cluster: u64,
}

impl Method {
    fn of(inode: &Inode) -> Result<Self> {
        let extra = inode.get(RawInode::extra);
        let id = extra.i_compress_algorithm;
        let algorithm = Algorithm::from_disk(id)
            .ok_or(Error::NotSupported("a compression algorithm unknown to this version"))?;
        let checksum = extra.i_compress_flag.get() & CHECKSUM != 0;
        Ok(Self { algorithm, checksum, cluster: cluster_blocks(inode) })
    }
}

/// Blocks in a cluster of a compressed file.
pub fn cluster_blocks(inode: &Inode) -> u64 {
    1 << inode.get(RawInode::extra).i_log_cluster_size.min(8)
}

impl Files {
    /// Reads a window of a compressed file. The caller holds the inode's lock.
    pub(super) fn read_clusters(&self, inode: &Arc<Inode>, mut window: Window<'_>) -> Result<()> {
        let method = Method::of(inode)?;
        let wanted = window.blocks();
        let mut start = wanted.start - wanted.start % method.cluster;
        let mut plain = vec![0; (method.cluster as usize) * BLOCK_SIZE];
        while start < wanted.end {
            let cluster = start..start.saturating_add(method.cluster);
            start = cluster.end;
            if self.read_compressed(inode, method, cluster.clone(), &mut plain)? {
                let (into, skip) = window.part(cluster);
                into.copy_from_slice(plain.get(skip..skip + into.len()).unwrap_or_default());
            } else {
                let blocks = cluster.start.max(wanted.start)..cluster.end.min(wanted.end);
                self.read_blocks(inode, blocks, &mut window)?;
            }
        }
        Ok(())
    }

    /// Decompresses a cluster; false if it is not stored compressed.
    fn read_compressed(
        &self,
        inode: &Arc<Inode>,
        method: Method,
        cluster: Range<u64>,
        plain: &mut [u8],
    ) -> Result<bool> {
        loop {
            let addrs = self.map_blocks(inode, cluster.clone())?;
            let Some((&BlockAddr::COMPRESS, slots)) = addrs.split_first() else { return Ok(false) };
            let stored: Vec<BlockAddr> = slots.iter().copied().take_while(|a| a.is_real()).collect();
            let done = self.decompress_blocks(inode, method, &stored, plain);
            // Retries if a block moved while it was read.
            if self.map_blocks(inode, cluster.clone())? != addrs {
                continue;
            }
            if let Some(addr) = self.space.first_unused(&stored) {
                return Err(unused_block(addr).into());
            }
            if slots.iter().skip(stored.len()).any(|a| *a != BlockAddr::NULL && *a != BlockAddr::NEW) {
                return Err(bad_cluster(inode, "stored blocks are not at the front", stored.len(), 0));
            }
            return done.map(|()| true);
        }
    }

    fn decompress_blocks(
        &self,
        inode: &Inode,
        method: Method,
        stored: &[BlockAddr],
        plain: &mut [u8],
    ) -> Result<()> {
        let mut blocks = vec![Block::zeroed(); stored.len()];
        let mut rest = blocks.as_mut_slice();
        for run in stored.chunk_by(|a, b| b.0 == a.0.saturating_add(1)) {
            let (now, later) = rest.split_at_mut(run.len());
            rest = later;
            if let Some(&first) = run.first() {
                self.base.dev.read_into(first, now)?;
            }
        }
        let data = compressed_data(inode.ino.0, blocks.as_bytes(), method.checksum)?;
        decompress(method.algorithm, data, plain)
            .map_err(|_| bad_cluster(inode, "data cannot be decompressed", data.len(), plain.len()))
    }

    /// Whether the cluster of a file block is stored compressed.
    pub fn is_compressed_at(&self, inode: &Inode, fblk: u64) -> Result<bool> {
        if !inode.get(RawInode::is_compressed) {
            return Ok(false);
        }
        let first = fblk - fblk % cluster_blocks(inode);
        Ok(self.map_blocks(inode, first..first.saturating_add(1))?.contains(&BlockAddr::COMPRESS))
    }

    /// Rejects a change of clusters that are stored compressed.
    pub fn check_not_compressed(&self, inode: &Inode, blocks: Range<u64>) -> Result<()> {
        if !inode.get(RawInode::is_compressed) {
            return Ok(());
        }
        let mut at = blocks.start - blocks.start % cluster_blocks(inode);
        while at < blocks.end {
            at = match self.nodes.find_span(&inode.frame, at)? {
                Place::Missing { next } => next,
                Place::Span(span) => {
                    if self
                        .nodes
                        .slot_addrs(&span.frame, span.slots(&(at..blocks.end)))?
                        .contains(&BlockAddr::COMPRESS)
                    {
                        return Err(Error::NotSupported("writing compressed files"));
                    }
                    span.blocks.end
                }
            };
        }
        Ok(())
    }
}

fn bad_cluster(inode: &Inode, why: &'static str, found: usize, expected: usize) -> Error {
    Corrupt::nid(Structure::Cluster, inode.ino.0, why, found as u64, expected as u64).into()
}
