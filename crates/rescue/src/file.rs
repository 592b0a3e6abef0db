//! One version of an inode and the nodes of its index.
use crate::scan::Candidate;
use crate::volume::{Checked, Volume};
use segno_format::inode::{InodeLayout, RawInode};
use segno_format::node::{RawNode, SUBTREES, XATTR_NODE_OFFSET, child_offset, first_block};
use segno_format::{ADDRS_PER_BLOCK, BLOCK_SIZE, Block, BlockAddr, Nid};
use std::collections::BTreeMap;
use std::ops::Deref;

/// Chooses the version of a node of this file: by nid, if the index still names it, and offset.
pub type Choose<'a> = dyn Fn(Option<u32>, u32) -> Option<Candidate> + 'a;

/// An inode that was read.
pub struct File {
    /// Which version it is.
    pub node: Candidate,
    /// The block.
    pub block: Block,
    /// State of its checksum.
    pub checked: Checked,
    /// How the block is divided.
    pub layout: InodeLayout,
}

/// An inode and the nodes that belong to it.
pub struct Opened {
    /// The inode.
    pub file: File,
    /// Direct nodes by their first file block.
    pub dnodes: BTreeMap<u64, Candidate>,
    /// Nodes that the index names and of which no version was found.
    pub missing: u64,
    /// The node with extended attributes.
    pub xattr: Option<Candidate>,
}

impl Deref for Opened {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

/// One slot of the index.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Block of the file.
    pub file_block: u64,
    /// Node that has the slot.
    pub nid: u32,
    /// Its number in the node.
    pub slot: u16,
    /// Its content.
    pub addr: BlockAddr,
}

impl File {
    /// Reads a version; `None` if it cannot be read or its sizes are impossible.
    #[must_use]
    pub fn read(volume: &Volume<'_>, node: &Candidate) -> Option<Self> {
        let (block, checked) = volume.inode(node)?;
        let layout = block.view::<RawInode>().layout(volume.features).ok()?;
        Some(Self { node: *node, block, checked, layout })
    }

    /// Its fields.
    #[must_use]
    pub fn raw(&self) -> &RawInode {
        self.block.view()
    }

    /// The area in the inode that holds inline data or an inline directory.
    #[must_use]
    pub fn inline_area(&self) -> &[u8] {
        self.block.0.get(self.layout.inline_range()).unwrap_or_default()
    }

    /// Slots of a cluster; 1 if the file is not compressed.
    #[must_use]
    pub fn cluster(&self) -> usize {
        match self.raw().is_compressed() {
            true => 1 << self.raw().extra().i_log_cluster_size.min(8),
            false => 1,
        }
    }

    /// Finds its nodes. Where an indirect node is lost, its direct nodes are found by their offsets.
    #[must_use]
    pub fn open(self, volume: &Volume<'_>, choose: &Choose<'_>) -> Opened {
        let xattr = Some(self.raw().i_xattr_nid.get()).filter(|nid| *nid != 0);
        let xattr = xattr.and_then(|nid| choose(Some(nid), XATTR_NODE_OFFSET));
        let mut out = Opened { file: self, dnodes: BTreeMap::new(), missing: 0, xattr };
        if out.raw().has_index() {
            out.find(volume, choose);
        }
        out
    }

    /// Blocks that the size covers.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.raw().i_size.get().div_ceil(BLOCK_SIZE as u64)
    }
}

impl Opened {
    /// A live inode; `None` if it cannot be read or its sizes are impossible.
    #[must_use]
    pub fn live(volume: &Volume<'_>, node: &Candidate) -> Option<Self> {
        Some(File::read(volume, node)?.open(volume, &choose_live(volume, node.nid)))
    }

    fn find(&mut self, volume: &Volume<'_>, choose: &Choose<'_>) {
        for (i, (depth, offset)) in (0u32..).zip(SUBTREES) {
            let nid = self.raw().nid(i);
            if nid != Nid::NONE {
                self.subtree(volume, choose, nid.0, (depth, offset));
            }
        }
        // Nodes written by fsync may lie below indirect nodes that were not written.
        if !volume.chain.overlay.is_empty() {
            for n in volume.nodes.owned(self.node.ino, 0) {
                if volume.chain.overlay.get(&n.nid) == Some(&n.addr) {
                    self.place(n);
                }
            }
        }
    }

    fn place(&mut self, n: &Candidate) {
        let first = first_block(n.offset(), self.layout.slots, self.layout.per_node);
        if let Some(first) = first.filter(|_| !n.is_inode()) {
            self.dnodes.insert(first, *n);
        }
    }

    /// `depth` is 1 for a direct node and at most 3, so the recursion is bounded; a node has one offset, so
    /// it is met once.
    fn subtree(&mut self, volume: &Volume<'_>, choose: &Choose<'_>, nid: u32, (depth, offset): (u32, u32)) {
        let top = choose(Some(nid), offset);
        if let Some(n) = top.filter(|_| depth == 1) {
            return self.place(&n);
        }
        let Some(block) = top.and_then(|n| volume.reader.block(n.place())) else {
            return self.by_offset(volume, choose, (depth, offset));
        };
        let node: &RawNode = block.view();
        for i in 0..ADDRS_PER_BLOCK {
            let child = node.nid(i);
            if child != Nid::NONE {
                self.subtree(volume, choose, child.0, (depth - 1, child_offset(depth, offset, i)));
            }
        }
    }

    /// Direct nodes of a subtree whose top is lost.
    fn by_offset(&mut self, volume: &Volume<'_>, choose: &Choose<'_>, (depth, offset): (u32, u32)) {
        self.missing += 1;
        let end = if depth == 1 { offset + 1 } else { child_offset(depth, offset, ADDRS_PER_BLOCK) };
        let mut last = offset;
        for n in volume.nodes.owned(self.node.ino, offset + 1).take_while(|n| n.offset() < end) {
            if n.offset() != last {
                last = n.offset();
                choose(None, last).iter().for_each(|n| self.place(n));
            }
        }
    }

    /// Calls `each` for the slots of the inode and of all direct nodes, a cluster at a time. Returns the
    /// number of nodes that could not be read.
    pub fn slots(&self, volume: &Volume<'_>, mut each: impl FnMut(&[Slot])) -> u64 {
        if !self.raw().has_index() {
            return 0;
        }
        let mut all = Vec::with_capacity(ADDRS_PER_BLOCK as usize);
        let mut lost = 0;
        let raw = self.raw();
        let own = (0..self.layout.slots).map(|i| raw.slot(&self.layout, i));
        fill(&mut all, 0, self.node.nid, own);
        all.chunks(self.cluster()).for_each(&mut each);
        for (&first, n) in &self.dnodes {
            let Some(block) = volume.reader.block(n.place()) else {
                lost += 1;
                continue;
            };
            let node: &RawNode = block.view();
            fill(&mut all, first, n.nid, (0..self.layout.per_node).map(|i| node.addr(i)));
            all.chunks(self.cluster()).for_each(&mut each);
        }
        lost
    }
}

fn fill(all: &mut Vec<Slot>, first: u64, nid: u32, addrs: impl Iterator<Item = BlockAddr>) {
    all.clear();
    all.extend((0u16..).zip(addrs).map(|(slot, addr)| Slot {
        file_block: first + u64::from(slot),
        nid,
        slot,
        addr,
    }));
}

/// Chooses the nodes of a live file.
pub fn choose_live<'v>(
    volume: &'v Volume<'_>,
    ino: u32,
) -> impl Fn(Option<u32>, u32) -> Option<Candidate> + 'v {
    move |nid, offset| {
        let right = |n: &Candidate| n.ino == ino && n.offset() == offset;
        match nid {
            Some(nid) => volume.live(nid, right).map(|(n, _)| n),
            None => {
                let at = volume.nodes.owned(ino, offset).take_while(|n| n.offset() == offset);
                at.filter_map(|n| volume.live(n.nid, right)).map(|(n, _)| n).next()
            }
        }
    }
}
