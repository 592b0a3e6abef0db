//! Reading the roll-forward chain: the warm nodes written since the checkpoint, each naming the place of the next.
use crate::error::Result;
use crate::planted::{Bug, planted};
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use segno_format::inode::{Inline, RawInode, verify_checksum};
use segno_format::node::{RawNode, RawNodeFooter, XATTR_NODE_OFFSET};
use segno_format::sit::LogType;
use segno_format::{ADDRS_PER_BLOCK, Block, BlockAddr, Corrupt, Ino, Nid, Structure};
use std::collections::HashSet;

/// A node of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub addr: BlockAddr,
    pub nid: Nid,
    pub ino: Ino,
    pub node_offset: u32,
    pub fsync: bool,
    /// An inode block whose directory entry is part of what was synced.
    pub dent: bool,
}

impl Link {
    pub fn is_inode(&self) -> bool {
        self.nid == self.ino
    }
    /// The subtree of the inode, 0 to 4, that the node is in.
    fn subtree(&self) -> Option<u32> {
        match self.node_offset {
            0 | XATTR_NODE_OFFSET => None,
            1 => Some(0),
            2 => Some(1),
            n if n <= 3 + ADDRS_PER_BLOCK => Some(2),
            n if n <= 4 + 2 * ADDRS_PER_BLOCK => Some(3),
            _ => Some(4),
        }
    }
    /// Whether a node that was logged before this block of its inode is part of the inode still, as far as the block
    /// tells: indirect nodes are not logged.
    pub fn belongs_to(&self, inode: &RawInode) -> bool {
        let has = |nid: Nid| if self.node_offset <= 2 { nid == self.nid } else { nid != Nid::NONE };
        match self.subtree() {
            Some(index) => !inode.inline().contains(Inline::DATA) && has(inode.nid(index)),
            None => self.is_inode() || inode.i_xattr_nid.get() != 0,
        }
    }
}

impl Volume {
    /// The chain behind the checkpoint in force, in the order it was written.
    pub(super) fn read_chain(&self) -> Result<Vec<Link>> {
        let [.., warm, _] = self.segs.log_states();
        debug_assert_eq!(warm.kind, LogType::WarmNode);
        let whole_stamp =
            !self.cp.lock().header.view::<RawCheckpoint>().flags().contains(CpFlags::NOCRC_RECOVERY);
        let stamp = self.stamp.load(Ordering::Acquire);
        let mut at = self.geo.seg_start(warm.segno).offset(warm.next);
        let (mut chain, mut seen) = (Vec::new(), HashSet::new());
        while self.geo.in_main(at) {
            let block = self.dev.read(at)?;
            let footer = block.view::<RawNode>().footer;
            let stamped =
                footer.cp_ver.get() == stamp || (!whole_stamp && footer.cp_ver.get() as u32 == stamp as u32);
            let older = planted(Bug::ChainHole) && (1..stamp as u32).contains(&(footer.cp_ver.get() as u32));
            if !(stamped || older) || !self.is_whole(&block, &footer) {
                break;
            }
            if !seen.insert(at) {
                return Err(broken(at, "the chain runs in a circle", chain.len() as u64, 0).into());
            }
            chain.push(self.chain_link(at, &footer)?);
            at = BlockAddr(footer.next_blkaddr.get());
        }
        Ok(chain)
    }

    /// An inode block without its whole content was being written when the power went: the chain ends before it.
    fn is_whole(&self, block: &Block, footer: &RawNodeFooter) -> bool {
        footer.nid != footer.ino || verify_checksum(block, self.features, self.checksum_seed).is_ok()
    }

    fn chain_link(&self, addr: BlockAddr, footer: &RawNodeFooter) -> Result<Link> {
        let (nid, ino) = (Nid(footer.nid.get()), Nid(footer.ino.get()));
        for n in [nid, ino] {
            if !self.geo.nid_ok(n) {
                return Err(broken(addr, "nid out of range", n.0.into(), self.geo.max_nid().into()).into());
            }
        }
        footer.check(nid, ino)?;
        let fsync = footer.is_fsync();
        let dent = fsync && footer.is_dent() && nid == ino;
        Ok(Link { addr, nid, ino, node_offset: footer.node_offset(), fsync, dent })
    }
}

/// Damage of the chain at a block.
pub fn broken(at: BlockAddr, why: &'static str, found: u64, expected: u64) -> Corrupt {
    Corrupt::block(Structure::RollForward, at.0.into(), why, found, expected)
}
