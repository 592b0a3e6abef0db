//! Reading: a cluster at a time.
use super::{bad_cluster, cluster_of};
use crate::block::SharedBlock;
use crate::error::Result;
use crate::files::block::unused_block;
use crate::files::read::Window;
use crate::files::{Files, Inode};
use segno_codec::decompress;
use segno_format::cluster::compressed_data;
use segno_format::{BLOCK_SIZE, BlockAddr};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Pages of a range, ascending.
pub(super) type Pages = Vec<(u64, SharedBlock)>;

/// Where the content of a cluster is.
pub(super) enum Content {
    /// Plain: pages and slots, for each block.
    Plain(Pages, Vec<BlockAddr>),
    /// Packed, and all of its pages are cached.
    Cached(Pages),
    /// Packed, and now in the caller's buffer.
    Unpacked,
}

impl Files {
    /// Reads a window of a compressed file. The caller holds the inode's lock.
    pub(in crate::files) fn read_clusters(&self, inode: &Arc<Inode>, mut window: Window<'_>) -> Result<()> {
        let (wanted, len) = (window.blocks(), super::cluster_blocks(inode));
        let mut unpacked = Vec::new();
        let mut at = wanted.start;
        while at < wanted.end {
            let cluster = cluster_of(at, len);
            at = cluster.end;
            while !self.read_cluster(inode, &cluster, &wanted, &mut window, &mut unpacked)? {}
        }
        Ok(())
    }

    /// Reads the part of the window in one cluster; false if its blocks moved meanwhile.
    fn read_cluster(
        &self,
        inode: &Arc<Inode>,
        cluster: &Range<u64>,
        wanted: &Range<u64>,
        window: &mut Window<'_>,
        unpacked: &mut Vec<u8>,
    ) -> Result<bool> {
        match self.cluster_content(inode, cluster, unpacked)? {
            Content::Plain(pages, addrs) => {
                let blocks = cluster.start.max(wanted.start)..cluster.end.min(wanted.end);
                let slots = (blocks.start - cluster.start) as usize..(blocks.end - cluster.start) as usize;
                let pages = pages.into_iter().filter(|(i, _)| blocks.contains(i)).collect();
                self.read_mapped(inode, blocks, pages, addrs.get(slots).unwrap_or_default(), window)
            }
            Content::Cached(pages) => {
                for (index, block) in pages {
                    let (into, skip) = window.slice(index..index + 1);
                    into.copy_from_slice(block.0.get(skip..skip + into.len()).unwrap_or_default());
                }
                Ok(true)
            }
            Content::Unpacked => {
                let (into, skip) = window.slice(cluster.clone());
                into.copy_from_slice(unpacked.get(skip..skip + into.len()).unwrap_or_default());
                Ok(true)
            }
        }
    }

    /// The content of a cluster. The caller holds the inode's lock.
    pub(super) fn cluster_content(
        &self,
        inode: &Arc<Inode>,
        cluster: &Range<u64>,
        unpacked: &mut Vec<u8>,
    ) -> Result<Content> {
        let len = (cluster.end - cluster.start) as usize;
        loop {
            // Pages before slots: a page that a flush drops after this line is either in `pages` or has an address.
            let pages = inode.pages.lock().cached_in(cluster.clone());
            let addrs = self.nodes.map_blocks(&inode.frame, cluster.clone())?;
            let Some((&BlockAddr::COMPRESS, slots)) = addrs.split_first() else {
                return Ok(Content::Plain(pages, addrs));
            };
            if pages.len() == len {
                return Ok(Content::Cached(pages));
            }
            let stored: Vec<BlockAddr> = slots.iter().copied().take_while(|a| a.is_real()).collect();
            unpacked.resize(len * BLOCK_SIZE, 0);
            let done = self.unpack_blocks(inode, &stored, unpacked);
            // Retries if a block moved while it was read.
            if self.nodes.map_blocks(&inode.frame, cluster.clone())? != addrs {
                continue;
            }
            if let Some(addr) = self.space.first_unused(&stored) {
                return Err(unused_block(addr).into());
            }
            if slots.iter().skip(stored.len()).any(|a| *a != BlockAddr::NULL && *a != BlockAddr::NEW) {
                return Err(bad_cluster(inode, "stored blocks are not at the front", stored.len(), 0));
            }
            return done.map(|()| Content::Unpacked);
        }
    }

    fn unpack_blocks(&self, inode: &Inode, stored: &[BlockAddr], plain: &mut [u8]) -> Result<()> {
        let (algorithm, checksum) = super::parameters::decoder(inode)?;
        let blocks = self.base.dev.read_scattered(stored)?;
        let data = compressed_data(inode.ino.0, blocks.as_bytes(), checksum)?;
        decompress(algorithm, data, plain)
            .map_err(|_| bad_cluster(inode, "data cannot be decompressed", data.len(), plain.len()))
    }
}
