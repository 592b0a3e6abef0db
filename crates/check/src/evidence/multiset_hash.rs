//! Whether two sides of a volume name the same things, without a list of either.
//!
//! Each side adds up the hashes of its items. The sums are equal if both sides name the same items, each the
//! same number of times. Different sides have equal sums with a probability of 2^-64, whatever the damage,
//! because the hashes use random keys.
use segno_format::summary::RawSummary;
use segno_format::{BlockAddr, Nid};
use std::hash::{BuildHasher, RandomState};

/// An item that both sides name.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Item {
    /// A node: in the NAT; in the tree.
    Node { nid: u32, ino: u32, addr: u32 },
    /// The owner of a node block: in the NAT; in the summary.
    NodeBlock { addr: u32, nid: u32 },
    /// The owner of a data block: in the summary; in a node.
    DataBlock { addr: u32, nid: u32, version: u8, slot: u16 },
    /// The only name of an inode, with the parent if the inode records it: in the inode; in a directory.
    Name { ino: u32, file_type: u8, parent: Option<u32> },
}

impl Item {
    pub(crate) fn node(nid: Nid, ino: u32, addr: BlockAddr) -> Self {
        Self::Node { nid: nid.0, ino, addr: addr.0 }
    }

    pub(crate) fn node_block(addr: BlockAddr, nid: u32) -> Self {
        Self::NodeBlock { addr: addr.0, nid }
    }

    pub(crate) fn data_block(addr: BlockAddr, owner: RawSummary) -> Self {
        let (nid, version, slot) = (owner.nid.get(), owner.version, owner.ofs_in_node.get());
        Self::DataBlock { addr: addr.0, nid, version, slot }
    }
}

pub(crate) struct MultisetHash {
    keys: RandomState,
    sum: u64,
    /// The volume has summaries, which record the owners of data blocks.
    summaries: bool,
}

impl MultisetHash {
    pub(crate) fn new(summaries: bool) -> Self {
        Self { keys: RandomState::new(), sum: 0, summaries }
    }

    /// An empty one that can be merged into this one.
    pub(crate) fn branch(&self) -> Self {
        Self { keys: self.keys.clone(), sum: 0, summaries: self.summaries }
    }

    pub(crate) fn merge(&mut self, branch: &Self) {
        self.sum = self.sum.wrapping_add(branch.sum);
    }

    /// Adds an expected item.
    pub(crate) fn expect(&mut self, item: Item) {
        self.sum = self.sum.wrapping_add(self.keys.hash_one(item));
    }

    /// Subtracts an item that was found.
    pub(crate) fn find(&mut self, item: Item) {
        self.sum = self.sum.wrapping_sub(self.keys.hash_one(item));
    }

    /// The owner of a data block, as the summary should have it.
    pub(crate) fn find_owner(&mut self, addr: BlockAddr, owner: RawSummary) {
        if self.summaries {
            self.find(Item::data_block(addr, owner));
        }
    }

    /// Whether all that was expected was found, and nothing else.
    pub(crate) fn balances(&self) -> bool {
        self.sum == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(ino: u32, parent: Option<u32>) -> Item {
        Item::Name { ino, file_type: 1, parent }
    }

    #[test]
    fn order_does_not_matter_and_number_does() {
        let mut hash = MultisetHash::new(true);
        hash.expect(name(4, Some(3)));
        hash.expect(Item::node(Nid(4), 4, BlockAddr(100)));
        let mut branch = hash.branch();
        branch.find(Item::node(Nid(4), 4, BlockAddr(100)));
        branch.find(name(4, Some(3)));
        assert!(!hash.balances());
        hash.merge(&branch);
        assert!(hash.balances());
        hash.find(name(4, Some(3)));
        assert!(!hash.balances(), "a second time");
    }

    #[test]
    fn whatever_differs_shows() {
        let node = Item::node(Nid(4), 4, BlockAddr(100));
        let block = Item::data_block(BlockAddr(9), RawSummary::data(Nid(4), 1, 7));
        for (expected, found) in [
            (node, Item::node(Nid(4), 4, BlockAddr(101))),
            (node, Item::node(Nid(5), 4, BlockAddr(100))),
            (node, Item::node(Nid(4), 3, BlockAddr(100))),
            (Item::node_block(BlockAddr(100), 4), Item::node_block(BlockAddr(100), 5)),
            (Item::node_block(BlockAddr(100), 4), node),
            (block, Item::data_block(BlockAddr(8), RawSummary::data(Nid(4), 1, 7))),
            (block, Item::data_block(BlockAddr(9), RawSummary::data(Nid(5), 1, 7))),
            (block, Item::data_block(BlockAddr(9), RawSummary::data(Nid(4), 2, 7))),
            (block, Item::data_block(BlockAddr(9), RawSummary::data(Nid(4), 1, 8))),
            (name(4, Some(3)), name(4, None)),
            (name(4, Some(3)), name(4, Some(5))),
            (name(4, Some(3)), name(5, Some(3))),
        ] {
            let mut hash = MultisetHash::new(true);
            hash.expect(expected);
            hash.find(found);
            assert!(!hash.balances(), "{expected:?} and {found:?}");
        }
    }
}
