//! Blocks that only an F2FS volume has: checkpoint blocks by their checksum, node blocks by their links.
use segno_format::checkpoint::RawCheckpoint;
use segno_format::node::RawNode;
use segno_format::{Block, Ino, Nid};

/// Whether consecutive blocks, the first of them at `at`, have a checkpoint block, an inode, or two neighbours of a log of nodes.
pub(super) fn are_in(blocks: &[Block], at: u64) -> bool {
    let mut before = false;
    (at..).zip(blocks).any(|(at, block)| {
        let node = Node::of(block, at);
        let neighbours = before && node != Node::No;
        before = node != Node::No;
        neighbours || node == Node::Inode || RawCheckpoint::verify(block, at).is_ok()
    })
}

#[derive(PartialEq, Eq)]
enum Node {
    No,
    Inode,
    Other,
}

impl Node {
    /// In a log each node names the next block. For a node that is not an inode this may be chance.
    fn of(block: &Block, at: u64) -> Self {
        let f = block.view::<RawNode>().footer;
        let (nid, ino) = (f.nid.get(), f.ino.get());
        let known = nid >= Nid::ROOT.0 && ino >= Ino::ROOT.0 && f.cp_ver.get() != 0;
        let linked = u64::from(f.next_blkaddr.get()) == at + 1;
        match (known && linked, nid == ino, f.node_offset() == 0) {
            (true, true, true) => Self::Inode,
            (true, false, false) => Self::Other,
            _ => Self::No,
        }
    }
}
