//! Flushing: dirty pages are taken cluster by cluster, and clusters are compressed before they get addresses.
use super::{cluster_blocks, cluster_of};
use crate::block::shared;
use crate::error::Result;
use crate::files::batch::{Batch, Outgoing, SubBatch};
use crate::files::{Files, FlushReason, Inode, PageMap};
use crate::health::invariant;
use crate::options::CompressMode;
use crate::sync::atomic::Ordering;
use segno_format::inode::RawInode;
use segno_format::sit::LogType;
use segno_format::{BLOCK_SIZE, Block};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// A cluster in a batch whose slots change together.
#[derive(Debug)]
pub struct Cluster {
    pub first: u64,
    /// Blocks below the end of the file. With fewer than the cluster has, it cannot be packed.
    pub kept: usize,
    /// Pages taken. They are replaced by the blocks to write once these are known.
    pub written: usize,
    /// Whether the blocks to write are packed.
    pub packed: bool,
}

impl Files {
    /// Limit of pages in a batch of these files. Large enough for any of their clusters.
    pub fn batch_most(&self, inodes: &[Arc<Inode>], why: FlushReason) -> usize {
        let compressed = inodes.iter().filter(|i| i.get(RawInode::is_compressed));
        let cluster = compressed.map(|i| cluster_blocks(i) as usize).max();
        self.room.batch_pages(why.most()).max(cluster.unwrap_or(0))
    }

    /// Like [`Files::take_pages`], for a compressed file. Clusters are not divided between batches.
    pub(in crate::files) fn take_clusters(
        &self,
        inode: &Arc<Inode>,
        range: Range<u64>,
        log: LogType,
        batch: &mut Batch,
    ) -> Result<Option<u64>> {
        let (len, packs) = (cluster_blocks(inode), self.packs(inode));
        let room = self.room.batch_pages(batch.why.most());
        // Held until every page has its slot, as in `take_pages`.
        let mut pages = inode.pages.lock();
        let end = inode.size().div_ceil(BLOCK_SIZE as u64);
        let range = self.flushed_range(inode, range);
        let (mut at, mut next) = (cluster_of(range.start, len).start, None);
        let whole = batch.sub_batches.len();
        batch.sub_batches.extend([SubBatch::new(inode, log), SubBatch::new(inode, log)]);
        while let Some(&index) = pages.dirty_in(at..range.end, 1).first() {
            let cluster = cluster_of(index, len);
            let dirty = pages.dirty_in(cluster.clone(), len as usize);
            if batch.len() > 0 && batch.len() + dirty.len() > room {
                next = Some(cluster.start);
                break;
            }
            at = cluster.end;
            let complete = dirty.len() as u64 == len;
            let packed = self.packed.is_packed(inode, index)?;
            invariant!(self.base.health, complete || !packed, "a packed cluster is dirty in part");
            let changes_form = packed || (complete && packs && cluster.end <= end);
            let sub = batch.sub_batches.get_mut(if changes_form { whole } else { whole + 1 });
            let sub = self.base.health.present(sub, "a batch has no sub-batch for its pages")?;
            if changes_form {
                let kept = end.saturating_sub(cluster.start).min(len) as usize;
                let cluster = Cluster { first: cluster.start, kept, written: len as usize, packed: false };
                sub.clusters.push(cluster);
            }
            self.take_cluster(inode, &mut pages, dirty, sub, batch.id)?;
        }
        self.cover(inode, &mut pages, batch.id);
        Ok(next)
    }

    fn take_cluster(
        &self,
        inode: &Inode,
        pages: &mut PageMap,
        dirty: Vec<u64>,
        sub: &mut SubBatch,
        id: u64,
    ) -> Result<()> {
        let Some(&first) = dirty.first() else { return Ok(()) };
        let owner = self.owner_of_page(inode, first)?;
        dirty.into_iter().for_each(|index| sub.take(pages, index, &owner, id, &self.base.mem));
        Ok(())
    }

    /// Whether flushes pack clusters of the file.
    fn packs(&self, inode: &Inode) -> bool {
        self.base.opts.compression.mode == CompressMode::Fs || inode.packing.load(Ordering::Relaxed)
    }

    /// Compresses the clusters of a batch. A cluster that does not become smaller is written plain.
    pub fn pack_batch(&self, batch: &mut Batch) {
        for sub in batch.sub_batches.iter_mut().filter(|p| !p.clusters.is_empty()) {
            let wanted = self.packs(&sub.inode);
            let mut encoder = if wanted { super::parameters::encoder(&sub.inode) } else { None };
            let mut plain = Vec::new();
            let mut pages = std::mem::take(&mut sub.pages).into_iter();
            for cluster in &mut sub.clusters {
                let mut taken: Vec<Outgoing> = pages.by_ref().take(cluster.written).collect();
                if cluster.kept == taken.len()
                    && let Some(encoder) = &mut encoder
                {
                    plain.clear();
                    taken.iter().for_each(|page| plain.extend_from_slice(page.block.as_bytes()));
                    if let Some(stored) = encoder.encode(&plain) {
                        place_stored(&mut taken, stored);
                        cluster.packed = true;
                    }
                }
                if !cluster.packed {
                    taken.truncate(cluster.kept);
                }
                cluster.written = taken.len();
                sub.pages.extend(taken);
            }
        }
    }
}

/// Replaces the pages of a cluster by its stored blocks, which are in the slots from the second one on.
fn place_stored(pages: &mut Vec<Outgoing>, stored: &[u8]) {
    let (blocks, _) = stored.as_chunks::<BLOCK_SIZE>();
    pages.drain(..1);
    pages.truncate(blocks.len());
    for (page, block) in pages.iter_mut().zip(blocks) {
        page.block = shared(Block(*block));
    }
}
