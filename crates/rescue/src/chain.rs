//! The roll-forward chain: nodes that fsync wrote after the checkpoint, and that take precedence over the
//! NAT's.
use crate::versions::Versions;
use segno_format::{BlockAddr, Geometry};
use segno_layout::{Link, Pack, certain};
use std::collections::HashMap;

/// The roll-forward chain of a pack.
#[derive(Debug, Default)]
pub struct Chain {
    /// Addresses of all its nodes, in order.
    pub nodes: Vec<u32>,
    /// Address of the node that counts, by nid: only nodes up to the last fsync of their inode.
    pub overlay: HashMap<u32, u32>,
    /// Addresses of inodes whose directory entry is to be made.
    pub dents: Vec<u32>,
}

impl Chain {
    /// Follows the chain from where the pack's log ends.
    #[must_use]
    pub fn find(pack: &Pack, geo: &Geometry, nodes: &Versions) -> Self {
        let mut out = Self::default();
        let mut chain = segno_layout::Chain::after(pack, geo);
        let find =
            |at| nodes.at_addr(at).map(|n| Link { node: n.addr, cp_ver: n.cp_ver, next: BlockAddr(n.next) });
        while let Ok((_, addr)) = certain(chain.step(|at| Ok(find(at)))) {
            out.nodes.push(addr);
        }
        let node = |addr: &u32| nodes.at_addr(BlockAddr(*addr));
        let mut last = HashMap::new();
        for (i, n) in out.nodes.iter().filter_map(node).enumerate().filter(|(_, n)| n.is_fsync()) {
            last.insert(n.ino, i);
        }
        for (i, n) in out.nodes.iter().filter_map(node).enumerate() {
            if last.get(&n.ino).is_some_and(|&l| i <= l) {
                out.overlay.insert(n.nid, n.addr);
                if n.is_inode() && n.flag & 4 != 0 {
                    out.dents.push(n.addr);
                }
            }
        }
        out
    }
}
