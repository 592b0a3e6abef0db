//! Space that compression saves: released to the volume, or reserved again; and rewriting a file in the other form.
use super::PackedClusters;
use super::{cluster_blocks, cluster_of, saved};
use crate::block::shared;
use crate::error::{Error, Result};
use crate::files::access::check_changeable;
use crate::files::{Files, Inode, SIZE};
use crate::nodes::Span;
use crate::times::set_ctime;
use crate::transaction::Op;
use segno_format::inode::{Inline, RawInode};
use segno_format::{BLOCK_SIZE, Block, BlockAddr};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

impl PackedClusters {
    /// Gives the blocks that compression saves to the volume; the file cannot be changed until they are reserved again. Returns
    /// their number. The caller holds the inode's lock exclusively, and no page is dirty.
    pub fn release(&self, op: &Op<'_>, inode: &Arc<Inode>) -> Result<u64> {
        let clusters = self.packed_clusters(inode)?;
        let count: u64 = clusters.iter().map(|c| c.saved).sum();
        if count == 0 {
            return Err(Error::NotPermitted("compression saves no blocks of the file"));
        }
        self.fill_unused(op, &clusters, BlockAddr::NEW, BlockAddr::NULL)?;
        self.nodes.space.counts.release_blocks(count)?;
        self.nodes.add_blocks(op, &inode.frame, -count.cast_signed());
        self.set_released(op, inode, 0, true);
        Ok(count)
    }

    /// Reserves the blocks that compression saves, so that the file can be changed; all or none. Returns their number.
    pub fn reserve(&self, op: &Op<'_>, inode: &Arc<Inode>) -> Result<u64> {
        let clusters = self.packed_clusters(inode)?;
        let count: u64 = clusters.iter().map(|c| c.saved).sum();
        self.nodes.space.counts.reserve_blocks(count)?;
        self.fill_unused(op, &clusters, BlockAddr::NULL, BlockAddr::NEW)?;
        self.nodes.add_blocks(op, &inode.frame, count.cast_signed());
        self.set_released(op, inode, count, false);
        Ok(count)
    }

    fn set_released(&self, op: &Op<'_>, inode: &Inode, saved: u64, released: bool) {
        let now = self.nodes.base.now();
        op.record(inode.ino, |log| log.released(released));
        self.nodes.cache.modify_inode(op, &inode.frame, |raw| {
            raw.set_inline(Inline::COMPRESS_RELEASED, released);
            raw.edit_extra(|e| e.i_compr_blocks = U64::new(saved));
            set_ctime(raw, now);
        });
    }

    fn packed_clusters(&self, inode: &Inode) -> Result<Vec<Packed>> {
        let len = cluster_blocks(inode) as usize;
        let mut found = Vec::new();
        for span in self.nodes.spans(&inode.frame, 0..u64::MAX) {
            let span = span?;
            let addrs = self.nodes.slot_addrs(&span.frame, span.slots(&span.blocks))?;
            for (first, slots) in (0..).step_by(len).zip(addrs.chunks(len)) {
                let saved = saved(slots);
                if saved > 0 {
                    found.push(Packed { span: span.clone(), slots: first..first + len, saved });
                }
            }
        }
        Ok(found)
    }

    /// Replaces the slots of packed clusters that have no block.
    fn fill_unused(&self, op: &Op<'_>, all: &[Packed], from: BlockAddr, to: BlockAddr) -> Result<()> {
        for same in all.chunk_by(|a, b| a.span.frame.nid == b.span.frame.nid) {
            let Some(first) = same.first() else { continue };
            self.nodes.edit_slots(op, &first.span.frame, "slots of a cluster outside its node", |words| {
                for cluster in same {
                    let unused =
                        words.get_mut(cluster.slots.clone())?.iter_mut().filter(|w| w.get() == from.0);
                    unused.for_each(|word| *word = U32::new(to.0));
                }
                Some(())
            })?;
        }
        Ok(())
    }
}

impl Files {
    /// Makes clusters of one form dirty, from a block on, about `budget` pages, so that the next flush writes
    /// them in the other form. Returns the block to continue at. The caller holds no lock.
    pub fn dirty_clusters(
        &self,
        inode: &Arc<Inode>,
        from: u64,
        packed: bool,
        budget: u64,
    ) -> Result<Option<u64>> {
        let _exclusive = inode.lock.write();
        check_changeable(inode)?;
        check_compressed(inode)?;
        if is_released(inode) {
            return Err(Error::Invalid("the blocks that compression saved were released"));
        }
        let _excluded = inode.exclude_flush();
        let len = cluster_blocks(inode);
        let end = inode.size().div_ceil(SIZE);
        let (mut at, mut done) = (from, 0);
        while at < end && done < budget {
            at = self.next_mapped(inode, at, end)?;
            let cluster = cluster_of(at, len);
            at = cluster.end;
            if cluster.start < end && self.dirty_cluster(inode, &cluster, packed, end)? {
                done += len;
            }
        }
        if done > 0 {
            self.mark_dirty(inode);
        }
        Ok((at < end).then_some(at))
    }

    fn dirty_cluster(
        &self,
        inode: &Arc<Inode>,
        cluster: &Range<u64>,
        packed: bool,
        end: u64,
    ) -> Result<bool> {
        let addrs = self.nodes.map_blocks(&inode.frame, cluster.clone())?;
        let is_packed = addrs.first() == Some(&BlockAddr::COMPRESS);
        // A cluster with a hole or a reserved block has no data there to compress.
        let sparse = addrs.iter().any(|a| !a.is_real()) || cluster.end > end;
        if is_packed != packed || (!packed && sparse) {
            return Ok(false);
        }
        let mut bytes = vec![0; addrs.len() * BLOCK_SIZE];
        self.read_locked(inode, cluster.start * SIZE, &mut bytes)?;
        let mut pages = inode.pages.lock();
        for (index, content) in (cluster.start..).zip(bytes.as_chunks::<BLOCK_SIZE>().0) {
            pages.modify(index, &self.base.mem, || shared(Block(*content)), |_| {});
        }
        Ok(true)
    }
}

/// A packed cluster and its slots.
struct Packed {
    span: Span,
    slots: Range<usize>,
    saved: u64,
}

fn is_released(inode: &Inode) -> bool {
    inode.get(|i| i.inline().contains(Inline::COMPRESS_RELEASED))
}

/// Checks for a file with the flag.
pub fn check_compressed(inode: &Inode) -> Result<()> {
    if inode.get(RawInode::is_compressed) {
        Ok(())
    } else {
        Err(Error::Invalid("the file is not compressed"))
    }
}

/// Blocks that compression saves in a file and that are still reserved.
pub fn saved_blocks(inode: &Inode) -> Result<u64> {
    check_compressed(inode)?;
    Ok(inode.get(|i| i.extra().i_compr_blocks.get()))
}

/// Checks whether the saved blocks may be released, or reserved again. The caller holds the inode's lock.
pub fn check_release(inode: &Inode, release: bool) -> Result<()> {
    check_changeable(inode)?;
    check_compressed(inode)?;
    match (release, is_released(inode)) {
        (true, true) => Err(Error::Invalid("the saved blocks are released already")),
        (false, false) => Err(Error::Invalid("the saved blocks are not released")),
        _ => Ok(()),
    }
}
