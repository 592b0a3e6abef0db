//! Writing node blocks to their logs.
use super::NodeFrame;
use crate::error::Result;
use crate::gate::Op;
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use segno_format::inode::seal_checksum;
use segno_format::node::RawNode;
use segno_format::sit::LogType;
use segno_format::summary::RawSummary;
use segno_format::{Block, BlockAddr};
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

/// Marks that roll-forward recovery looks for.
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

impl Volume {
    /// Writes nodes of one log, in the order given, and points the NAT at their new places. The frames are clean
    /// afterwards unless they were changed meanwhile.
    ///
    /// For the warm node log the caller holds the chain lock, so that blocks reach the device in chain order.
    pub(crate) fn write_nodes(&self, _op: &Op<'_>, log: LogType, nodes: &[NodeWrite]) -> Result<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let owners: Vec<RawSummary> = nodes.iter().map(|n| RawSummary::node(n.frame.nid)).collect();
        let places = self.segs.allocate_nodes(log, &owners)?;
        let mut out: Vec<(BlockAddr, Arc<Block>)> = Vec::with_capacity(nodes.len());
        for (n, &(addr, next)) in nodes.iter().zip(&places) {
            // Clean from here on: a change made after the copy marks the frame dirty again.
            self.nodes.dirty.clear(&n.frame, &self.mem);
            out.push((addr, Arc::new(self.sealed(&n.frame, &n.frame.snapshot(), n.marks, next))));
        }
        self.dev.write_scattered(&mut out)?;
        // Valid before the NAT names them: whoever frees a node meanwhile finds its newest block valid.
        let published: Vec<_> = places.iter().map(|&(addr, _)| (addr, BlockAddr::NULL)).collect();
        self.segs.publish_all(&published)?;
        let mut replaced = Vec::with_capacity(nodes.len());
        for (n, &(addr, _)) in nodes.iter().zip(&places) {
            match self.nat.moved(n.frame.nid, addr)? {
                BlockAddr::NULL => {
                    self.since.node_freed(n.frame.ino);
                    replaced.push(addr);
                }
                old => replaced.push(old),
            }
        }
        replaced.retain(|a| a.is_real());
        self.segs.invalidate_all(&replaced)?;
        self.stats.node_blocks.fetch_add(nodes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Writes nodes as they were when their generation ended, for the checkpoint on its way. What has happened to them
    /// since is not touched: a node that was freed is valid for the checkpoint alone.
    pub(crate) fn write_frozen_nodes(&self, log: LogType, frames: &[Arc<NodeFrame>]) -> Result<()> {
        let owners: Vec<RawSummary> = frames.iter().map(|f| RawSummary::node(f.nid)).collect();
        let places = self.segs.allocate_nodes(log, &owners)?;
        let mut out: Vec<(BlockAddr, Arc<Block>)> = Vec::with_capacity(frames.len());
        for (frame, &(addr, next)) in frames.iter().zip(&places) {
            let block = frame.take_frozen(&self.mem);
            out.push((addr, Arc::new(self.sealed(frame, &block, Marks::default(), next))));
        }
        self.mem.dirty_nodes.add(-(frames.len() as i64));
        self.dev.write_scattered(&mut out)?;
        let addrs: Vec<BlockAddr> = places.iter().map(|&(addr, _)| addr).collect();
        self.segs.place_all(&addrs)?;
        for (frame, &addr) in frames.iter().zip(&addrs) {
            let placed = self.nat.place(frame.nid, addr)?;
            if !placed.live {
                // The checkpoint has a node that is gone: roll-forward would not free it.
                self.since.node_freed(frame.ino);
            }
            self.segs.displace(addr, placed.before, placed.live)?;
        }
        self.stats.node_blocks.fetch_add(frames.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The node's bytes as they go to the device: footer and checksum filled in.
    fn sealed(&self, frame: &NodeFrame, block: &Block, marks: Marks, next: BlockAddr) -> Block {
        let mut block = block.clone();
        let footer = &mut block.view_mut::<RawNode>().footer;
        footer.cp_ver = U64::new(self.stamp.load(Ordering::Acquire));
        footer.next_blkaddr = U32::new(next.0);
        footer.set_marks(marks.fsync, marks.dent);
        if frame.nid == frame.ino {
            seal_checksum(&mut block, self.features, self.checksum_seed);
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MountOptions, Owner};
    use segno_device::MemDevice;
    use segno_format::Ino;
    use segno_format::inode::RawInode;

    /// A volume with one file, which a checkpoint has.
    fn with_file() -> (Arc<MemDevice>, Arc<Volume>, Ino) {
        let dev = Arc::new(MemDevice::new(96 * 256));
        let member = segno_mkfs::Member { device: dev.clone(), path: String::new(), zeroed: true };
        segno_mkfs::format(&[member], &segno_mkfs::MkfsOptions::default()).unwrap();
        let opts = MountOptions { background: false, ..MountOptions::default() };
        let v = Volume::mount(dev.clone(), opts).unwrap();
        let ino = v.mknod(Ino::ROOT, b"a", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
        v.sync().unwrap();
        (dev, v, ino)
    }

    fn assert_gone(dev: &MemDevice, v: &Volume, ino: Ino) {
        assert!(!v.exists(ino).unwrap());
        v.unmount().unwrap();
        let report = segno_check::check(dev, &segno_check::CheckOptions::default(), &mut |_| {}).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }

    #[test]
    fn a_node_that_was_freed_meanwhile_stays_freed() {
        let (dev, v, ino) = with_file();
        let stale = NodeWrite { frame: v.nodes.get(ino).unwrap(), marks: Marks::default() };
        v.unlink(Ino::ROOT, b"a").unwrap();
        {
            let op = v.gate.enter();
            let _chain = v.chain.lock();
            v.write_nodes(&op, LogType::WarmNode, &[stale]).unwrap();
        }
        assert_gone(&dev, &v, ino);
    }

    #[test]
    fn a_node_that_is_freed_while_cleaning_looks_at_it_stays_freed() {
        let (dev, v, ino) = with_file();
        let inode = v.inode(ino).unwrap();
        let frame = v.make_xattr_node(&v.gate.enter(), &inode).unwrap();
        v.sync().unwrap();
        std::thread::scope(|s| {
            let op = v.gate.enter();
            let there = || {
                // Cleaning has found the node where it was; now it goes, as far as that waits for nobody.
                s.spawn(|| v.free_node(&v.gate.enter(), frame.nid, ino).unwrap());
                while v.nat.get(frame.nid)?.addr.is_real() {
                    std::thread::yield_now();
                }
                Ok(true)
            };
            assert!(v.nodes.mark_moved(&op, &frame, there).unwrap());
        });
        v.nodes.modify(&v.gate.enter(), &inode.frame, |block| {
            let i: &mut RawInode = block.view_mut();
            (i.i_xattr_nid, i.i_blocks) = (U32::new(0), U64::new(1));
        });
        assert_gone(&dev, &v, frame.nid);
    }
}
