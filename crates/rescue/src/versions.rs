//! All versions of all nodes, and which of two is newer.
use crate::scan::{Candidate, OF_MKFS};
use segno_format::BlockAddr;
use std::cmp::Reverse;

/// The nodes that a scan found.
#[derive(Debug, Default)]
pub struct Versions {
    /// By address.
    nodes: Vec<Candidate>,
    /// Indices by nid, newest first.
    by_nid: Vec<u32>,
    /// Indices of nodes other than inodes by owner and offset, newest first.
    by_owner: Vec<u32>,
    /// A version that none of the volume's is older than, so that they can be compared as numbers.
    oldest: u32,
}

impl Versions {
    /// Orders what a scan found; `nodes` are in the order of their addresses.
    #[must_use]
    pub fn new(mut nodes: Vec<Candidate>) -> Self {
        chains(&mut nodes);
        // Half of all numbers before any of them: versions are close to each other.
        let oldest = nodes.get(nodes.len() / 2).map_or(0, |n| (n.cp_ver as u32).wrapping_sub(1 << 31));
        let mut out = Self { nodes, by_nid: Vec::new(), by_owner: Vec::new(), oldest };
        let all = || 0..out.nodes.len() as u32;
        let mut by_nid: Vec<u32> = all().collect();
        by_nid.sort_unstable_by_key(|&i| out.at(i).map(|n| (n.nid, Reverse(out.age(n)))));
        let mut by_owner: Vec<u32> = all().filter(|&i| out.at(i).is_some_and(|n| !n.is_inode())).collect();
        by_owner.sort_unstable_by_key(|&i| out.at(i).map(|n| (n.ino, n.offset(), Reverse(out.age(n)))));
        (out.by_nid, out.by_owner) = (by_nid, by_owner);
        out
    }

    fn at(&self, i: u32) -> Option<&Candidate> {
        self.nodes.get(i as usize)
    }

    /// The greater, the newer: by checkpoint version, then by time, then by place in the log.
    #[must_use]
    pub fn age(&self, n: &Candidate) -> (u32, u32, u32, u32) {
        (self.version(n.cp_ver), n.ctime, n.chain, n.rank)
    }

    /// A checkpoint version as a number that can be compared.
    #[must_use]
    pub fn version(&self, cp_ver: u64) -> u32 {
        if cp_ver == OF_MKFS { 0 } else { (cp_ver as u32).wrapping_sub(self.oldest) }
    }

    /// All nodes by address.
    #[must_use]
    pub fn all(&self) -> &[Candidate] {
        &self.nodes
    }

    /// The node at an address.
    #[must_use]
    pub fn at_addr(&self, addr: BlockAddr) -> Option<&Candidate> {
        let i = self.nodes.binary_search_by_key(&addr.0, |n| n.addr).ok()?;
        self.nodes.get(i)
    }

    /// Versions of a node, newest first.
    pub fn of(&self, nid: u32) -> impl Iterator<Item = &Candidate> {
        let nid_at = |&i: &u32| self.at(i).map_or(0, |n| n.nid);
        let from = self.by_nid.partition_point(|i| nid_at(i) < nid);
        let list = self.by_nid.get(from..).unwrap_or_default();
        list.iter().filter_map(|&i| self.at(i)).take_while(move |n| n.nid == nid)
    }

    /// Nodes of an inode other than its block, by offset and newest first, from an offset on.
    pub fn owned(&self, ino: u32, from_offset: u32) -> impl Iterator<Item = &Candidate> {
        let key = |&i: &u32| self.at(i).map_or((0, 0), |n| (n.ino, n.offset()));
        let from = self.by_owner.partition_point(|i| key(i) < (ino, from_offset));
        let list = self.by_owner.get(from..).unwrap_or_default();
        list.iter().filter_map(|&i| self.at(i)).take_while(move |n| n.ino == ino)
    }

    /// Newest version of each inode number, with its nid.
    pub fn inodes(&self) -> impl Iterator<Item = &Candidate> {
        let mut last = 0;
        self.by_nid.iter().filter_map(|&i| self.at(i)).filter(move |n| {
            let first = n.is_inode() && n.nid != last;
            if n.is_inode() {
                last = n.nid;
            }
            first
        })
    }
}

/// Numbers the blocks of each log that still form a chain.
fn chains(nodes: &mut [Candidate]) {
    let next: Vec<Option<usize>> = nodes
        .iter()
        .map(|n| {
            let i = nodes.binary_search_by_key(&n.next, |m| m.addr).ok()?;
            nodes.get(i).filter(|m| m.cp_ver == n.cp_ver).map(|_| i)
        })
        .collect();
    let mut follows = vec![false; nodes.len()];
    for i in next.iter().flatten() {
        if let Some(f) = follows.get_mut(*i) {
            *f = true;
        }
    }
    let heads = (0..nodes.len()).filter(|&i| follows.get(i) == Some(&false));
    // Heads first; the rest are cycles.
    let starts: Vec<usize> = heads.chain(0..nodes.len()).collect();
    for start in starts {
        let chain = nodes.get(start).map_or(0, |n| n.addr);
        let (mut at, mut rank) = (Some(start), 1);
        while let Some(n) = at.and_then(|i| nodes.get_mut(i)).filter(|n| n.rank == 0) {
            (n.chain, n.rank) = (chain, rank);
            rank += 1;
            at = at.and_then(|i| next.get(i).copied().flatten());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(addr: u32, nid: u32, cp_ver: u64, next: u32) -> Candidate {
        let (flag, ctime, generation, rank, chain) = (0, 0, 0, 0, 0);
        Candidate { addr, nid, ino: nid, flag, cp_ver, next, ctime, generation, rank, chain }
    }

    #[test]
    fn the_later_block_of_a_log_is_newer_wherever_it_lies() {
        // The log runs 30, 31, 10; version numbers wrap around.
        let last = u64::from(u32::MAX);
        let nodes = vec![node(10, 5, 0, 11), node(20, 5, last, 21), node(30, 5, 0, 31), node(31, 6, 0, 10)];
        let versions = Versions::new(nodes);
        assert_eq!(versions.of(5).map(|n| n.addr).collect::<Vec<_>>(), [10, 30, 20]);
        assert_eq!(versions.of(7).count(), 0);
    }

    #[test]
    fn nodes_of_mkfs_are_the_oldest() {
        let nodes = vec![node(10, 3, 1, 11), node(20, 3, 0xB000_0000, 21), node(21, 9, 0xB000_0000, 22)];
        assert_eq!(Versions::new(nodes).of(3).map(|n| n.addr).collect::<Vec<_>>(), [20, 10]);
    }

    #[test]
    fn a_circle_ends() {
        let versions = Versions::new(vec![node(10, 5, 1, 20), node(20, 5, 1, 10)]);
        assert_eq!(versions.of(5).count(), 2);
    }
}
