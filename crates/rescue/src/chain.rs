//! What fsync wrote after the checkpoint: nodes that count instead of those of the NAT.
use crate::versions::Versions;
use segno_format::sit::LogType;
use segno_format::{BlockAddr, Geometry};
use segno_layout::Pack;
use std::collections::{HashMap, HashSet};

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
        let mut seen = HashSet::new();
        let mut at = pack.next_of(LogType::WarmNode, geo).filter(|_| geo.has_ssa);
        while let Some(n) = at.and_then(|a| nodes.at_addr(a)) {
            if !pack.precedes(n.cp_ver) || !seen.insert(n.addr) {
                break;
            }
            out.nodes.push(n.addr);
            at = Some(BlockAddr(n.next));
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
