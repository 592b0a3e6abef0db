//! The node cache: frames by nid, loaded through the NAT, evicted when clean and unused.
use super::slots::named_twice;
use super::{DirtyNodes, NodeFrame, NodeState};
use crate::base::Base;
use crate::block::{SharedBlock, shared};
use crate::clock_cache::{ClockCache, Step};
use crate::error::Result;
use crate::health::invariant;
use crate::lock::{Mutex, rank};
use crate::nodes::{Nat, NatEntry, Quota};
use crate::transaction::Op;
use segno_format::inode::{Inline, RawInode, verify_checksum};
use segno_format::node::{RawNode, RawNodeFooter};
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Corrupt, Ino, Nid, Structure};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const SHARDS: usize = 16;
/// Dentry blocks read ahead for a directory.
const PREFETCH_DENTRIES: u32 = 64;
/// Blocks read at a time when an inode is loaded.
const READ_AROUND: u32 = 8;

type Shard = ClockCache<Nid, NodeFrame>;

/// Cache of node blocks by nid.
pub struct NodeCache {
    shards: [Mutex<Shard, { rank::NODE_CACHE }>; SHARDS],
    /// The next shard to evict from.
    next_shard: AtomicUsize,
    pub dirty: DirtyNodes,
    nat: Arc<Nat>,
    quota: Arc<Quota>,
    base: Arc<Base>,
}

impl NodeCache {
    pub fn new(nat: Arc<Nat>, quota: Arc<Quota>, base: Arc<Base>) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { shards, next_shard: AtomicUsize::new(0), dirty: DirtyNodes::new(), nat, quota, base }
    }

    fn shard(&self, nid: Nid) -> &Mutex<Shard, { rank::NODE_CACHE }> {
        &self.shards[nid.0 as usize & (SHARDS - 1)]
    }

    /// The frame if it is in memory.
    pub fn cached(&self, nid: Nid) -> Option<Arc<NodeFrame>> {
        self.shard(nid).lock().get(nid).cloned()
    }

    /// The node `nid`, from memory or from the device; fails if its NAT entry or footer does not match.
    pub fn get(&self, nid: Nid) -> Result<Arc<NodeFrame>> {
        loop {
            if let Some(f) = self.cached(nid) {
                return Ok(f);
            }
            let epoch = self.nat.epoch();
            let entry = self.nat.get(nid)?;
            if !entry.addr.is_real() {
                let (why, found) = ("node has no address", entry.addr.0.into());
                return Err(Corrupt::nid(Structure::NatBlock, nid.0, why, found, 0).into());
            }
            let blocks = self.read_around(nid, &entry)?;
            if let Some(frame) = self.insert_read(nid, &entry, epoch, blocks)? {
                return Ok(frame);
            }
        }
    }

    /// Reads a node. Inodes created together are adjacent, so the blocks after an inode are read too.
    fn read_around(&self, nid: Nid, entry: &NatEntry) -> Result<Vec<SharedBlock>> {
        if nid == entry.ino.nid() {
            if let Some(block) = self.base.dev.peek_readahead(entry.addr, |b| shared(b.clone())) {
                return Ok(vec![block]);
            }
            if let Ok(run) = self.base.dev.read_main_run(entry.addr, READ_AROUND) {
                return Ok(run.into_iter().map(shared).collect());
            }
        }
        Ok(vec![shared(self.base.dev.read_main(entry.addr)?)])
    }

    /// Reads attributes of a valid inode that was read ahead but is not cached. It is not cached then either: the
    /// front end may keep the attributes.
    pub fn peek_inode<R>(&self, ino: Ino, look: impl FnOnce(&RawInode) -> Option<R>) -> Option<R> {
        let epoch = self.nat.epoch();
        let entry = self.nat.get_cached(ino.nid()).filter(|e| e.addr.is_real() && e.ino == ino)?;
        let seen = self.base.dev.peek_readahead(entry.addr, |block| {
            self.check(ino.nid(), ino, block).ok()?;
            look(block.view())
        })??;
        // The inode may have been loaded and changed meanwhile.
        let shard = self.shard(ino.nid()).lock();
        (!shard.contains(ino.nid()) && self.is_current(ino.nid(), ino, entry.addr, epoch)).then_some(seen)
    }

    /// Inserts blocks that were read; `None` if the node may have moved meanwhile. Within one epoch no address is
    /// reused, so if the NAT still names the address, the block is current.
    fn insert_read(
        &self,
        nid: Nid,
        entry: &NatEntry,
        epoch: u64,
        blocks: Vec<SharedBlock>,
    ) -> Result<Option<Arc<NodeFrame>>> {
        let mut wanted = None;
        for (addr, block) in (0..).map(|i| entry.addr.offset(i)).zip(blocks) {
            if addr == entry.addr {
                if let Err(e) = self.check(nid, entry.ino, &block) {
                    // Damage, unless the block no longer belongs to this node.
                    return if self.is_current(nid, entry.ino, addr, epoch) { Err(e) } else { Ok(None) };
                }
                if nid == entry.ino.nid() {
                    self.prefetch_dentries(&block);
                }
                wanted = self.insert_if_current(nid, entry.ino, addr, epoch, block);
            } else {
                let found = block.view::<RawNode>().footer;
                let (nid, ino) = (Nid(found.nid.get()), Ino(found.ino.get()));
                if nid == ino.nid() && self.check(nid, ino, &block).is_ok() {
                    self.prefetch_dentries(&block);
                    self.insert_if_current(nid, ino, addr, epoch, block);
                }
            }
        }
        Ok(wanted)
    }

    /// A lookup of a directory's inode is usually followed by reading its names, and often its siblings.
    fn prefetch_dentries(&self, block: &Block) {
        let i: &RawInode = block.view();
        let Ok(layout) = i.layout(self.base.features) else { return };
        if !i.is_dir() || i.inline().contains(Inline::DENTRY) {
            return;
        }
        let blocks = (i.i_size.get() / BLOCK_SIZE as u64).min(layout.slots.into()) as u32;
        // The hash buckets leave holes in the file; on the device the blocks are adjacent.
        let mut addrs = (0..blocks).map(|n| i.slot(&layout, n)).filter(|a| a.is_real());
        let Some(first) = addrs.next() else { return };
        let together = (1..PREFETCH_DENTRIES).zip(addrs).take_while(|(n, a)| *a == first.offset(*n)).count();
        self.base.dev.prefetch(first, together as u32 + 1);
    }

    fn is_current(&self, nid: Nid, ino: Ino, addr: BlockAddr, epoch: u64) -> bool {
        self.nat.get_cached(nid).is_some_and(|now| now.addr == addr && now.ino == ino)
            && self.nat.epoch() == epoch
    }

    /// Inserts a frame if the NAT still names the address, and returns the cached one.
    fn insert_if_current(
        &self,
        nid: Nid,
        ino: Ino,
        addr: BlockAddr,
        epoch: u64,
        block: SharedBlock,
    ) -> Option<Arc<NodeFrame>> {
        let twice = named_twice(&block, self.base.features);
        let mut shard = self.shard(nid).lock();
        if let Some(f) = shard.get(nid) {
            return Some(f.clone());
        }
        if !self.is_current(nid, ino, addr, epoch) {
            return None;
        }
        let frame = Arc::new(NodeFrame::new(nid, ino, block));
        frame.set_named_twice(twice);
        shard.insert(nid, frame.clone());
        self.base.mem.nodes.add(1);
        Some(frame)
    }

    /// A node whose owner is known.
    pub fn get_of(&self, nid: Nid, ino: Ino) -> Result<Arc<NodeFrame>> {
        let frame = self.get(nid)?;
        if frame.ino == ino {
            Ok(frame)
        } else {
            let (found, why) = (frame.ino.0.into(), "node belongs to another inode");
            Err(Corrupt::nid(Structure::NodeFooter, nid.0, why, found, ino.0.into()).into())
        }
    }

    /// Checks that a block is the expected node.
    pub fn check(&self, nid: Nid, ino: Ino, block: &Block) -> Result<()> {
        block.view::<RawNode>().footer.check(nid, ino)?;
        if nid == ino.nid() {
            verify_checksum(block, self.base.features, self.base.checksum_seed)?;
        }
        Ok(())
    }

    /// Inserts a new node, whose NAT entry [`Nat::alloc`] made, into the cache and the registry of dirty nodes.
    pub fn create(&self, _op: &Op<'_>, nid: Nid, ino: Ino, node_offset: u32, cold: bool) -> Arc<NodeFrame> {
        let mut block = Block::zeroed();
        block.view_mut::<RawNode>().footer = RawNodeFooter::new(nid, ino, node_offset, cold);
        let frame = Arc::new(NodeFrame::new(nid, ino, shared(block)));
        let known = self.shard(nid).lock().insert(nid, frame.clone()).is_some();
        invariant!(self.base.health, !known, "a new node is in the cache already", else return frame);
        self.base.mem.nodes.add(1);
        self.check_listed(self.dirty.mark(&frame, &frame.write(), NodeState::Changed, &self.base.mem));
        frame
    }

    /// Changes a node's block and marks it dirty.
    pub fn modify<R>(&self, op: &Op<'_>, frame: &Arc<NodeFrame>, f: impl FnOnce(&mut Block) -> R) -> R {
        let mut guard = frame.write();
        self.check_listed(self.dirty.mark(frame, &guard, NodeState::Changed, &self.base.mem));
        let before = self.quota.inode_usage(frame, &guard);
        let fields = op.fields(&guard);
        let block: &mut Box<Block> = Arc::make_mut(&mut guard);
        let r = f(block);
        self.quota.changed(before, self.quota.inode_usage(frame, &guard));
        op.fields_changed(frame.ino, fields, &guard);
        r
    }

    /// As [`modify`](Self::modify), for an inode block.
    pub fn modify_inode<R>(
        &self,
        op: &Op<'_>,
        inode: &Arc<NodeFrame>,
        f: impl FnOnce(&mut RawInode) -> R,
    ) -> R {
        self.modify(op, inode, |block| f(block.view_mut()))
    }

    fn check_listed(&self, agrees: bool) {
        invariant!(self.base.health, agrees, "a dirty node is not on the list of its owner", else {});
    }

    /// Marks a frame clean that is being written, or was freed.
    pub fn clear(&self, frame: &NodeFrame) {
        self.check_listed(self.dirty.clear(frame, &self.base.mem));
    }

    /// Removes a freed node.
    pub fn forget(&self, _op: &Op<'_>, frame: &NodeFrame) {
        // Under the frame's lock: cleaning either finds that the node is gone, or has marked it before.
        let block = frame.write();
        self.quota.changed(self.quota.inode_usage(frame, &block), None);
        self.clear(frame);
        drop(block);
        if self.shard(frame.nid).lock().remove(frame.nid).is_some() {
            self.base.mem.nodes.add(-1);
        }
    }

    /// Marks a node dirty so that the next checkpoint moves it (cleaning), if it `still` exists.
    pub fn mark_moved(
        &self,
        _op: &Op<'_>,
        frame: &Arc<NodeFrame>,
        still: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        let block = frame.write();
        let there = still()?;
        if there {
            self.check_listed(self.dirty.mark(frame, &block, NodeState::Moved, &self.base.mem));
        }
        Ok(there)
    }

    /// Evicts up to `max` clean, unreferenced frames that were not used recently. Examines a few times as many.
    pub fn evict(&self, max: usize) {
        let each = max.div_ceil(SHARDS).max(4);
        let mut left = max;
        for _ in 0..SHARDS {
            if left == 0 {
                return;
            }
            let next_shard = self.next_shard.fetch_add(1, Ordering::Relaxed);
            // SHARDS is a power of two, so the mask is always a valid index.
            let shard = &self.shards[next_shard & (SHARDS - 1)];
            let mut gone = Vec::new();
            let step = Step { looks: each * 4, removals: each.min(left) };
            let count = shard.lock().evict(step, is_evictable, |f| gone.push(f));
            self.base.mem.nodes.add(-(count as i64));
            left -= count;
        }
    }

    /// Evicts a frame if it is clean and unreferenced.
    pub fn evict_one(&self, nid: Nid) {
        let mut shard = self.shard(nid).lock();
        if shard.get(nid).is_some_and(is_evictable) {
            shard.remove(nid);
            self.base.mem.nodes.add(-1);
        }
    }
}

/// The caller holds the shard's lock. A dirty frame is on a list, so a clean frame referenced only by the cache stays
/// clean.
fn is_evictable(frame: &Arc<NodeFrame>) -> bool {
    Arc::strong_count(frame) == 1 && !frame.is_dirty()
}
