//! Node blocks: the footer, and the arithmetic of the index tree.
use crate::{ADDRS_PER_BLOCK, BlockAddr, Corrupt, Ino, Nid, Structure};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Byte offset of the footer.
pub const FOOTER_OFFSET: usize = 4072;
/// Node offset of the xattr node.
pub const XATTR_NODE_OFFSET: u32 = 0x1FFF_FFFF;

const COLD: u32 = 1;
const FSYNC: u32 = 2;
const DENT: u32 = 4;
const OFFSET_SHIFT: u32 = 3;

/// `struct node_footer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawNodeFooter {
    /// Number of the node.
    pub nid: U32,
    /// Inode that the node belongs to.
    pub ino: U32,
    /// Mark bits, and from bit 3 on the place of the node in the inode's tree.
    pub flag: U32,
    /// Version of the checkpoint that the node follows. The upper half has the checkpoint's checksum if its
    /// flags require that.
    pub cp_ver: U64,
    /// Next block of the log, which links the roll-forward chain.
    pub next_blkaddr: U32,
}
const _: () = assert!(size_of::<RawNodeFooter>() == 24);

impl RawNodeFooter {
    /// The footer of a fresh node. `cold` is set for everything that is not a directory's.
    #[must_use]
    pub fn new(nid: Nid, ino: Ino, node_offset: u32, cold: bool) -> Self {
        Self {
            nid: U32::new(nid.0),
            ino: U32::new(ino.0),
            flag: U32::new(node_offset << OFFSET_SHIFT | u32::from(cold)),
            cp_ver: U64::new(0),
            next_blkaddr: U32::new(0),
        }
    }
    /// Position in the inode's node tree.
    #[must_use]
    pub fn node_offset(&self) -> u32 {
        self.flag.get() >> OFFSET_SHIFT
    }
    /// Whether this is a non-directory's node.
    #[must_use]
    pub fn is_cold(&self) -> bool {
        self.flag.get() & COLD != 0
    }
    /// Whether fsync wrote it.
    #[must_use]
    pub fn is_fsync(&self) -> bool {
        self.flag.get() & FSYNC != 0
    }
    /// Whether recovery must recreate the directory entry.
    #[must_use]
    pub fn is_dent(&self) -> bool {
        self.flag.get() & DENT != 0
    }
    /// Sets the roll-forward marks.
    pub fn set_marks(&mut self, fsync: bool, dent: bool) {
        let keep = self.flag.get() & !(FSYNC | DENT);
        self.flag = U32::new(keep | if fsync { FSYNC } else { 0 } | if dent { DENT } else { 0 });
    }
    /// Checks that this is the requested node.
    pub fn check(&self, nid: Nid, ino: Ino) -> Result<(), Corrupt> {
        let bad = |why, found: u32, expected: u32| {
            Err(Corrupt::nid(Structure::NodeFooter, nid.0, why, found.into(), expected.into()))
        };
        if self.nid.get() != nid.0 {
            return bad("nid in the footer", self.nid.get(), nid.0);
        }
        if self.ino.get() != ino.0 {
            return bad("owner in the footer", self.ino.get(), ino.0);
        }
        if (nid == ino.nid()) != (self.node_offset() == 0) {
            return bad("node offset of an inode is 0 and of no other node", self.node_offset(), 0);
        }
        Ok(())
    }
}

/// A direct or indirect node: 1018 words and the footer.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawNode {
    /// Block addresses of a direct node, nids of an indirect one.
    pub words: [U32; ADDRS_PER_BLOCK as usize],
    /// Whose node it is.
    pub footer: RawNodeFooter,
}
const _: () = assert!(size_of::<RawNode>() == 4096);

impl RawNode {
    /// Word `i` as a block address (direct node).
    #[must_use]
    pub fn addr(&self, i: u32) -> BlockAddr {
        self.words.get(i as usize).map_or(BlockAddr::NULL, |w| BlockAddr(w.get()))
    }
    /// Word `i` as a nid (indirect node).
    #[must_use]
    pub fn nid(&self, i: u32) -> Nid {
        Nid(self.addr(i).0)
    }
    /// Stores word `i`.
    pub fn set(&mut self, i: u32, v: u32) {
        if let Some(w) = self.words.get_mut(i as usize) {
            *w = U32::new(v);
        }
    }
}

/// How many nodes below the inode a path has, and which slots it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePath {
    /// Nodes below the inode: 0 (slot in the inode) to 3.
    pub depth: usize,
    /// Index taken at each level: `index[0]` in the inode (slot when depth is 0, else in `i_nid`), then in each node;
    /// `index[depth]` is the slot.
    pub index: [u32; 4],
    /// Node offset of the node at each level; `offset[0]` is the inode.
    pub offset: [u32; 4],
}

const N: u64 = ADDRS_PER_BLOCK as u64;

/// Levels below each of the inode's five nids, 1 for a direct node, and the node offset of the node there.
pub const SUBTREES: [(u32, u32); 5] =
    [(1, 1), (1, 2), (2, 3), (2, 4 + ADDRS_PER_BLOCK), (3, 5 + 2 * ADDRS_PER_BLOCK)];

/// Node offset of child `i` of a node with that many levels and that offset.
#[must_use]
pub fn child_offset(levels: u32, ofs: u32, i: u32) -> u32 {
    ofs + 1 + i * if levels == 3 { ADDRS_PER_BLOCK + 1 } else { 1 }
}

/// Data blocks an inode can have, with `a` slots in the inode and `p` in a direct node.
#[must_use]
pub fn max_blocks(a: u32, p: u32) -> u64 {
    let p = u64::from(p);
    u64::from(a) + 2 * p + 2 * p * N + p * N * N
}

/// Path to file block `b`; `None` past the end of the tree.
#[must_use]
pub fn path(a: u32, p: u32, b: u64) -> Option<NodePath> {
    let (a, p) = (u64::from(a), u64::from(p));
    let mk = |depth, index: [u64; 4], offset: [u64; 4]| {
        // Every index is below 1018 and every offset below 2^29.
        Some(NodePath { depth, index: index.map(|v| v as u32), offset: offset.map(|v| v as u32) })
    };
    if b < a {
        return mk(0, [b, 0, 0, 0], [0; 4]);
    }
    let mut r = b - a;
    for i in 0..2 {
        if r < p {
            return mk(1, [i, r, 0, 0], [0, 1 + i, 0, 0]);
        }
        r -= p;
    }
    for i in 0..2 {
        if r < p * N {
            let base = 3 + i * (N + 1);
            return mk(2, [2 + i, r / p, r % p, 0], [0, base, base + 1 + r / p, 0]);
        }
        r -= p * N;
    }
    if r < p * N * N {
        let (x, y) = (r / (p * N), r / p % N);
        let base = 5 + 2 * N;
        let ind = base + 1 + x * (N + 1);
        return mk(3, [4, x, y, r % p], [0, base, ind, ind + 1 + y]);
    }
    None
}

/// The kind of a node, according to its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// The inode block, the root of the tree.
    Inode,
    /// A direct node; its first file block is `A + before·P`.
    Direct {
        /// Direct nodes before it in the tree.
        before: u64,
    },
    /// An indirect or double indirect node, which holds nids.
    Indirect,
    /// The node with extended attributes.
    Xattr,
}

/// Kind of the node at a node offset; `None` for an impossible offset.
#[must_use]
pub fn kind_of_offset(ofs: u32) -> Option<NodeKind> {
    let o = u64::from(ofs);
    let last = 5 + 2 * N + N * (N + 1);
    Some(match o {
        0 => NodeKind::Inode,
        _ if ofs == XATTR_NODE_OFFSET => NodeKind::Xattr,
        1 | 2 => NodeKind::Direct { before: o - 1 },
        _ if o == 3 || o == 4 + N || o == 5 + 2 * N => NodeKind::Indirect,
        _ if o <= 3 + N => NodeKind::Direct { before: o - 2 },
        _ if o <= 4 + 2 * N => NodeKind::Direct { before: o - 3 },
        _ if o > last => return None,
        _ => {
            let j = o - (6 + 2 * N);
            match (j / (N + 1), j % (N + 1)) {
                (_, 0) => NodeKind::Indirect,
                (x, y) => NodeKind::Direct { before: 2 + 2 * N + x * N + (y - 1) },
            }
        }
    })
}

/// First file block covered by a direct node or the inode.
#[must_use]
pub fn first_block(ofs: u32, a: u32, p: u32) -> Option<u64> {
    match kind_of_offset(ofs)? {
        NodeKind::Inode => Some(0),
        NodeKind::Direct { before } => Some(u64::from(a) + before * u64::from(p)),
        NodeKind::Indirect | NodeKind::Xattr => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_vectors() {
        type Case = (u32, u32, u64, &'static [u32], &'static [u32], u32);
        let cases: &[Case] = &[
            (923, 1018, 922, &[], &[0], 922),
            (923, 1018, 923, &[0], &[1], 0),
            (923, 1018, 1941, &[1], &[2], 0),
            (923, 1018, 2959, &[2, 0], &[3, 4], 0),
            (923, 1018, 8052, &[2, 5], &[3, 9], 3),
            (923, 1018, 1_039_283, &[3, 0], &[1022, 1023], 0),
            (923, 1018, 2_075_607, &[4, 0, 0], &[2041, 2042, 2043], 0),
            (923, 1018, 5_191_714, &[4, 3, 7], &[2041, 5099, 5107], 9),
            (873, 1018, 8002, &[2, 5], &[3, 9], 3),
            (864, 1018, 1882, &[1], &[2], 0),
            (864, 1016, 1880, &[1], &[2], 0),
            (864, 1016, 7979, &[2, 5], &[3, 9], 3),
            (864, 1016, 5_181_457, &[4, 3, 7], &[2041, 5099, 5107], 9),
        ];
        for &(a, p, b, idx, ofs, slot) in cases {
            let got = path(a, p, b).unwrap();
            assert_eq!(got.depth, idx.len(), "depth of {b}");
            assert_eq!(&got.index[..idx.len()], idx, "indexes of {b}");
            assert_eq!(got.index[got.depth], slot, "slot of {b}");
            if !idx.is_empty() {
                assert_eq!(&got.offset[1..=idx.len()], ofs, "offsets of {b}");
            }
        }
    }

    #[test]
    fn offsets_and_paths_agree() {
        for (a, p) in [(923u32, 1018u32), (864, 1016), (873, 1018)] {
            let max = max_blocks(a, p);
            for b in [0, 5, 922, 923, 1882, 5000, 1_039_283, 2_075_607, 5_191_714, max - 1] {
                let got = path(a, p, b).unwrap();
                let ofs = got.offset[got.depth];
                assert_eq!(first_block(ofs, a, p).unwrap() + u64::from(got.index[got.depth]), b, "block {b}");
            }
            assert_eq!(path(a, p, max), None);
        }
    }
}
