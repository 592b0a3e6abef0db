//! Reads the roll-forward chain: the warm nodes written since the checkpoint, each naming the address of the next.
use crate::error::Result;
use crate::recovery::Recovery;
use segno_format::inode::{Inline, RawInode, verify_checksum};
use segno_format::node::{RawNode, RawNodeFooter, XATTR_NODE_OFFSET};
use segno_format::sit::LogType;
use segno_format::{ADDRS_PER_BLOCK, Block, BlockAddr, Corrupt, Ino, Nid, Structure};
use segno_layout::{Chain, ChainEnd};

/// A node of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub addr: BlockAddr,
    pub nid: Nid,
    pub ino: Ino,
    pub node_offset: u32,
    pub fsync: bool,
    /// An inode block with the `DENT` mark: its directory entry was synced too.
    pub dent: bool,
}

impl Link {
    pub fn is_inode(&self) -> bool {
        self.nid == self.ino.nid()
    }
    /// The subtree of the inode, 0 to 4, that contains the node.
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
    /// Whether a node logged before this block of its inode is still part of the inode, as far as the block shows:
    /// indirect nodes are not logged.
    pub fn belongs_to(&self, inode: &RawInode) -> bool {
        let has = |nid: Nid| if self.node_offset <= 2 { nid == self.nid } else { nid != Nid::NONE };
        match self.subtree() {
            Some(index) => !inode.inline().contains(Inline::DATA) && has(inode.nid(index)),
            None => self.is_inode() || inode.i_xattr_nid.get() != 0,
        }
    }
}

impl Recovery<'_> {
    /// Reads the chain after the current checkpoint, in write order.
    pub(super) fn read_chain(&self) -> Result<Vec<Link>> {
        let [.., warm, _] = self.files.space.log_states();
        debug_assert_eq!(warm.kind, LogType::WarmNode);
        let stamp = self.commit.cp.lock().stamp();
        let start = warm.position(&self.base.geo);
        let mut nodes = Chain::new(&self.base.geo, stamp, Some(start));
        let mut links = Vec::new();
        loop {
            let (at, block) = match nodes.next(&*self.base.dev)? {
                Ok(node) => node,
                Err(ChainEnd::Circle(at)) => {
                    return Err(broken(at, "the chain runs in a circle", links.len() as u64, 0).into());
                }
                Err(ChainEnd::Missing | ChainEnd::Stamp) => break,
            };
            let footer = block.view::<RawNode>().footer;
            if !self.is_whole(&block, &footer) {
                break;
            }
            links.push(self.chain_link(at, &footer)?);
        }
        Ok(links)
    }

    /// Whether an inode block has all its content. A torn block was being written during the power cut: the chain
    /// ends before it.
    fn is_whole(&self, block: &Block, footer: &RawNodeFooter) -> bool {
        footer.nid != footer.ino
            || verify_checksum(block, self.base.features, self.base.checksum_seed).is_ok()
    }

    fn chain_link(&self, addr: BlockAddr, footer: &RawNodeFooter) -> Result<Link> {
        let (nid, ino) = (Nid(footer.nid.get()), Ino(footer.ino.get()));
        for n in [nid, ino.nid()] {
            if !self.base.geo.nid_ok(n) {
                return Err(
                    broken(addr, "nid out of range", n.0.into(), self.base.geo.max_nid().into()).into()
                );
            }
        }
        footer.check(nid, ino)?;
        let fsync = footer.is_fsync();
        let dent = fsync && footer.is_dent() && nid == ino.nid();
        Ok(Link { addr, nid, ino, node_offset: footer.node_offset(), fsync, dent })
    }
}

/// Damage of the chain at a block.
pub fn broken(at: BlockAddr, why: &'static str, found: u64, expected: u64) -> Corrupt {
    Corrupt::block(Structure::RollForward, at.0.into(), why, found, expected)
}
