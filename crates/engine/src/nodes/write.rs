//! Writing node blocks to their logs.
use super::NodeFrame;
use super::Nodes;
use super::since_checkpoint::Change;
use crate::block::{SharedBlock, shared};
use crate::error::Result;
use crate::health::invariant;
use crate::space::Placement;
use crate::sync::atomic::Ordering;
use crate::transaction::Op;
use segno_format::inode::seal_checksum;
use segno_format::node::RawNode;
use segno_format::sit::LogType;
use segno_format::summary::RawSummary;
use segno_format::{Block, BlockAddr};
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

/// Footer flags that roll-forward recovery searches for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub fsync: bool,
    pub dent: bool,
}

/// One node to write.
#[derive(Clone, Debug)]
pub struct NodeWrite {
    pub frame: Arc<NodeFrame>,
    pub marks: Marks,
}

impl Nodes {
    /// Writes nodes of one log in the given order and updates their addresses in the NAT. The frames are clean
    /// afterwards unless they were changed meanwhile. Returns the address of the first node and the position after the
    /// last.
    ///
    /// For the warm node log the caller holds the chain lock, so that blocks reach the device in chain order.
    pub fn write_nodes(
        &self,
        _op: &Op<'_>,
        log: LogType,
        nodes: &[NodeWrite],
    ) -> Result<Option<(BlockAddr, BlockAddr)>> {
        if nodes.is_empty() {
            return Ok(None);
        }
        let health = &self.base.health;
        let ordered = log != LogType::WarmNode || self.base.tx.chain.try_lock().is_none();
        invariant!(health, ordered, "warm nodes are written without the chain lock");
        invariant!(
            health,
            nodes.iter().all(|n| n.frame.log() == log),
            "a node is written to another log than its own"
        );
        let (mut placed, end) =
            self.place_nodes(log, nodes.iter().map(|n| (&*n.frame, n.marks)), |frame| {
                // A change made after this copy marks the frame dirty again.
                self.cache.clear(frame);
                frame.snapshot()
            })?;
        let addrs = std::mem::take(&mut placed.addrs);
        // Valid before the NAT names them: freeing a node meanwhile must find its newest block valid.
        self.space.publish(&mut placed, &addrs, &[])?;
        let mut replaced = Vec::with_capacity(nodes.len());
        for (n, &addr) in nodes.iter().zip(&addrs) {
            match self.nat.moved(n.frame.nid, addr)? {
                BlockAddr::NULL => {
                    self.since.add(n.frame.ino, Change::NodeFreed);
                    replaced.push(addr);
                }
                old => replaced.push(old),
            }
        }
        replaced.retain(|a| a.is_real());
        self.space.invalidate(&replaced)?;
        self.base.stats.node_blocks.fetch_add(nodes.len() as u64, Ordering::Relaxed);
        Ok(addrs.first().map(|&first| (first, end)))
    }

    /// Writes the nodes of an ended generation for the checkpoint in progress. Later changes are left alone: if a
    /// node was freed since, its block is valid for the checkpoint only.
    pub fn write_frozen_nodes(&self, log: LogType, frames: &[Arc<NodeFrame>]) -> Result<()> {
        let fits = frames.iter().all(|f| f.log() == log);
        invariant!(self.base.health, fits, "a checkpoint writes a node to another log than its own");
        let (mut placed, _) =
            self.place_nodes(log, frames.iter().map(|f| (&**f, Marks::default())), |frame| {
                self.base.mem.dirty_nodes.add(-1);
                self.base.mem.in_checkpoint.add(-1);
                frame.take_frozen(&self.base.mem)
            })?;
        let addrs = std::mem::take(&mut placed.addrs);
        // Valid before the NAT names them, as in `write_nodes`.
        self.space.place_all(&mut placed, &addrs)?;
        for (frame, &addr) in frames.iter().zip(&addrs) {
            let placed = self.nat.place(frame.nid, addr)?;
            if !placed.live {
                // The checkpoint has a node that was freed since; roll-forward would not free it.
                self.since.add(frame.ino, Change::NodeFreed);
            }
            self.space.displace(addr, placed.before, placed.live)?;
        }
        self.base.stats.node_blocks.fetch_add(frames.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Places nodes and writes them in the given order, each naming the address that follows it. Also returns the position after the
    /// last.
    fn place_nodes<'a>(
        &self,
        log: LogType,
        nodes: impl ExactSizeIterator<Item = (&'a NodeFrame, Marks)> + Clone,
        content: impl Fn(&NodeFrame) -> SharedBlock,
    ) -> Result<(Placement, BlockAddr)> {
        let owners: Vec<RawSummary> = nodes.clone().map(|(frame, _)| RawSummary::node(frame.nid)).collect();
        let (placed, end) = self.space.allocate_nodes(log, &owners)?;
        let complete = placed.addrs.len() == owners.len();
        invariant!(self.base.health, complete, "the numbers of nodes and of addresses differ");
        let mut out: Vec<(BlockAddr, SharedBlock)> = Vec::with_capacity(owners.len());
        let following = placed.addrs.iter().skip(1).chain([&end]);
        for (((frame, marks), &addr), &next) in nodes.zip(&placed.addrs).zip(following) {
            out.push((addr, shared(self.sealed(frame, &content(frame), marks, next)?)));
        }
        self.base.dev.write_scattered(&mut out)?;
        Ok((placed, end))
    }

    /// The node's block as written to the device: footer and checksum filled in.
    fn sealed(&self, frame: &NodeFrame, block: &Block, marks: Marks, next: BlockAddr) -> Result<Block> {
        let mut block = block.clone();
        let footer = &mut block.view_mut::<RawNode>().footer;
        let own = footer.nid.get() == frame.nid.0 && footer.ino.get() == frame.ino.0;
        invariant!(self.base.health, own, "the footer of a node names another node");
        footer.cp_ver = U64::new(self.base.tx.stamp());
        footer.next_blkaddr = U32::new(next.0);
        footer.set_marks(marks.fsync, marks.dent);
        if frame.is_inode() {
            seal_checksum(&mut block, self.base.features, self.base.checksum_seed);
        }
        Ok(block)
    }
}
