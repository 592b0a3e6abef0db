//! Publishing: all slots of a cluster change in one step.
use super::flush::Cluster;
use super::{cluster_blocks, cluster_of, saved};
use crate::error::Result;
use crate::files::batch::{Outgoing, SubBatch};
use crate::files::{Files, Inode, PageMap};
use crate::health::invariant;
use crate::nodes::{NodeFrame, Nodes};
use crate::space::Placement;
use crate::transaction::{MappedPage, Op};
use segno_format::inode::RawInode;
use segno_format::{BLOCK_SIZE, BlockAddr};
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

/// Effect of replacing the slots of clusters.
#[derive(Default)]
struct Change {
    /// New blocks, and blocks that are freed.
    new: Vec<BlockAddr>,
    freed: Vec<BlockAddr>,
    /// Slots that were filled and are empty now.
    emptied: u64,
    /// Change of `i_compr_blocks`.
    saved: i64,
}

impl Files {
    /// Publishes the clusters of a sub-batch.
    pub(in crate::files) fn publish_clusters(
        &self,
        op: &Op<'_>,
        sub: &SubBatch,
        id: u64,
        placed: &mut Placement,
    ) -> Result<()> {
        let inode = &sub.inode;
        // Held until the SIT has the blocks, as in `publish_pages`.
        let mut pages = inode.pages.lock();
        let mut change = Change::default();
        let mut rest = sub.pages.as_slice();
        for cluster in &sub.clusters {
            let (own, later) = rest.split_at(cluster.written.min(rest.len()));
            rest = later;
            let blocks = cluster_of(cluster.first, cluster_blocks(inode));
            let alive = blocks.clone().all(|i| pages.in_flush(i, id));
            // Plain pages are published one by one in any case; a packed cluster must stay complete.
            let changed = pages.is_dirty_in(blocks.clone());
            let again = !alive || (cluster.packed && changed);
            if alive {
                let frame = self.base.health.present(own.first(), "a cluster without blocks")?;
                let slots = slots_after(cluster, own, &pages, blocks.clone().count());
                self.packed.switch(op, &frame.frame, first_slot(cluster, frame), &slots, &mut change)?;
                self.packed.note(op, inode, cluster, own, &slots);
            } else {
                pages.covered = pages.covered.min(cluster.first.saturating_mul(BLOCK_SIZE as u64));
            }
            blocks.for_each(|i| pages.end_flush(i, id, again, &self.base.mem));
        }
        self.nodes.forget_extent(op, &inode.frame);
        self.publish_size(op, inode, &pages, pages.covered);
        self.packed.finish(op, inode, &change, placed)
    }
}

/// Slots of compressed files: every change replaces all slots of a cluster.
pub struct PackedClusters {
    pub(in crate::files) nodes: Arc<Nodes>,
}

impl PackedClusters {
    /// Whether the cluster of a file block is packed. Stays true or false while the caller excludes flushes.
    pub fn is_packed(&self, inode: &Inode, block: u64) -> Result<bool> {
        if !inode.get(RawInode::is_compressed) {
            return Ok(false);
        }
        let first = cluster_of(block, cluster_blocks(inode)).start;
        Ok(self.nodes.map_blocks(&inode.frame, first..first + 1)?.contains(&BlockAddr::COMPRESS))
    }

    /// Replaces all slots of a cluster.
    fn switch(
        &self,
        op: &Op<'_>,
        frame: &Arc<NodeFrame>,
        first: u32,
        slots: &[BlockAddr],
        change: &mut Change,
    ) -> Result<()> {
        let range = first as usize..first as usize + slots.len();
        let old = self.nodes.slot_addrs(frame, range.clone())?;
        let reserved = old.iter().all(|&a| a != BlockAddr::NULL);
        invariant!(self.nodes.base.health, reserved, "a cluster is published in slots that are not reserved");
        self.nodes.edit_slots(op, frame, "a cluster is published outside its node", |all| {
            let all = all.get_mut(range)?;
            all.iter_mut().zip(slots).for_each(|(word, addr)| *word = U32::new(addr.0));
            Some(())
        })?;
        change.new.extend(slots.iter().filter(|a| a.is_real()));
        change.freed.extend(old.iter().filter(|a| a.is_real()));
        change.emptied += slots.iter().filter(|&&a| a == BlockAddr::NULL).count() as u64;
        change.saved += saved(slots).cast_signed() - saved(&old).cast_signed();
        Ok(())
    }

    /// Updates counters, and publishes and frees blocks.
    fn finish(&self, op: &Op<'_>, inode: &Inode, change: &Change, placed: &mut Placement) -> Result<()> {
        if change.saved != 0 {
            self.add_saved(op, inode, change.saved);
        }
        self.nodes.add_blocks(op, &inode.frame, -change.emptied.cast_signed());
        self.nodes.space.counts.release_blocks(change.emptied)?;
        self.nodes.space.publish(placed, &change.new, &change.freed)
    }

    /// Changes `i_compr_blocks`.
    pub(super) fn add_saved(&self, op: &Op<'_>, inode: &Inode, delta: i64) {
        self.nodes.cache.modify_inode(op, &inode.frame, |raw| {
            raw.edit_extra(|e| {
                e.i_compr_blocks = U64::new(e.i_compr_blocks.get().saturating_add_signed(delta));
            });
        });
    }

    fn note(&self, op: &Op<'_>, inode: &Inode, cluster: &Cluster, own: &[Outgoing], slots: &[BlockAddr]) {
        let mapped = own.iter().map(|p| MappedPage { page: p.index, addr: p.addr, crc: p.crc });
        if cluster.packed {
            return op.packed(inode.ino, mapped);
        }
        op.mapped(inode.ino, mapped, false);
        let tail = cluster.first + cluster.kept as u64;
        op.record(inode.ino, |log| log.unmapped(tail..cluster.first + slots.len() as u64));
        for (page, _) in (cluster.first..).zip(slots).filter(|(_, a)| **a == BlockAddr::NEW) {
            op.record(inode.ino, |log| log.reserved(page..page + 1));
        }
    }

    /// Makes a cluster packed, with stored blocks at addresses from a journal. The blocks are not in use yet.
    pub fn replay(&self, op: &Op<'_>, inode: &Inode, first: u64, stored: &[BlockAddr]) -> Result<()> {
        let blocks = cluster_of(first, cluster_blocks(inode));
        let span = self.nodes.span_for_write(op, &inode.frame, first)?;
        self.nodes.reserve_slots(op, &inode.frame, &span, blocks.clone())?;
        let mut slots = vec![BlockAddr::NEW; blocks.clone().count()];
        for ((place, slot), &addr) in slots.iter_mut().zip(span.slot(first)..).skip(1).zip(stored) {
            *place = addr;
            self.nodes.space.adopt(addr, self.nodes.summary_of(span.frame.nid, slot)?)?;
        }
        slots.iter_mut().take(1).for_each(|a| *a = BlockAddr::COMPRESS);
        let mut change = Change::default();
        self.switch(op, &span.frame, span.slot(first), &slots, &mut change)?;
        change.new.clear();
        self.finish(op, inode, &change, &mut self.nodes.space.placement(0))
    }

    /// Makes packed clusters in a range plain, without content. Their pages were dropped.
    pub(in crate::files) fn dissolve_all(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        blocks: std::ops::Range<u64>,
    ) -> Result<()> {
        if inode.get(RawInode::is_compressed) {
            for first in blocks.clone().filter(|b| b.is_multiple_of(cluster_blocks(inode))) {
                if self.is_packed(inode, first)? {
                    self.dissolve(op, inode, first)?;
                }
            }
        }
        Ok(())
    }

    /// Makes a packed cluster plain, without content.
    pub fn dissolve(&self, op: &Op<'_>, inode: &Inode, block: u64) -> Result<()> {
        let blocks = cluster_of(block, cluster_blocks(inode));
        let span = self.nodes.span_for_write(op, &inode.frame, blocks.start)?;
        let slots = vec![BlockAddr::NEW; blocks.clone().count()];
        let mut change = Change::default();
        self.switch(op, &span.frame, span.slot(blocks.start), &slots, &mut change)?;
        self.finish(op, inode, &change, &mut self.nodes.space.placement(0))
    }
}

/// The slot of the cluster's first block.
fn first_slot(cluster: &Cluster, own: &Outgoing) -> u32 {
    own.slot.saturating_sub(own.index.saturating_sub(cluster.first) as u32)
}

/// The slots of a cluster that was written. Slots past the end of the file become empty, except for pages
/// that a write added meanwhile.
fn slots_after(cluster: &Cluster, own: &[Outgoing], pages: &PageMap, len: usize) -> Vec<BlockAddr> {
    let rest = |i: u64| match cluster.packed || pages.page(i).is_some_and(|p| p.dirty) {
        true => BlockAddr::NEW,
        false => BlockAddr::NULL,
    };
    let marker = cluster.packed.then_some(BlockAddr::COMPRESS);
    let placed = marker.into_iter().chain(own.iter().map(|p| p.addr));
    let written = own.len() + usize::from(cluster.packed);
    placed.chain((cluster.first..).skip(written).take(len.saturating_sub(written)).map(rest)).collect()
}
