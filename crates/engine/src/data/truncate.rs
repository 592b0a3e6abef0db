//! Freeing blocks: the end of a file with its nodes, or a hole in the middle.
use super::index::{Place, Span};
use crate::error::Result;
use crate::gate::Op;
use crate::inode::Inode;
use crate::node::NodeFrame;
use crate::volume::Volume;
use segno_format::inode::{Inline, InodeLayout, RawInode};
use segno_format::node::{RawNode, first_block};
use segno_format::{ADDRS_PER_BLOCK, BlockAddr, Nid};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

const N: u32 = ADDRS_PER_BLOCK;
/// The nodes of a whole indirect subtree.
const INDIRECT_NODES: u32 = N + 1;
/// What hangs from the inode: node offset of the root, and levels of nodes below it.
const ROOTS: [(u32, u32); 5] = [(1, 0), (2, 0), (3, 1), (3 + INDIRECT_NODES, 1), (3 + 2 * INDIRECT_NODES, 2)];

/// A subtree below the inode.
#[derive(Clone, Copy, Debug)]
struct Subtree {
    offset: u32,
    /// Levels of nodes below its root; 0 is a direct node.
    height: u32,
    /// First file block.
    first: u64,
}

impl Subtree {
    /// File blocks it covers.
    fn width(&self, layout: &InodeLayout) -> u64 {
        (0..self.height).fold(layout.per_node.into(), |w: u64, _| w.saturating_mul(N.into()))
    }
    /// The subtree under word `k` of the root.
    fn child(&self, k: u32, layout: &InodeLayout) -> Self {
        let height = self.height.saturating_sub(1);
        let nodes = if height == 0 { 1 } else { INDIRECT_NODES };
        let mut child = Self { offset: self.offset + 1 + k * nodes, height, first: self.first };
        child.first += u64::from(k) * child.width(layout);
        child
    }
}

/// A truncation under way.
struct Cut<'a> {
    volume: &'a Volume,
    op: &'a Op<'a>,
    inode: &'a Arc<Inode>,
    layout: InodeLayout,
    from: u64,
    /// Blocks that may still be freed.
    budget: usize,
}

impl Cut<'_> {
    /// Whether a subtree lies wholly in front of the cut.
    fn spares(&self, tree: &Subtree) -> bool {
        self.from >= tree.first.saturating_add(tree.width(&self.layout))
    }

    /// Frees what hangs from the inode; true when nothing is left.
    fn roots(&mut self) -> Result<bool> {
        for (index, tree) in (0..5u32).zip(roots(&self.layout)).rev() {
            let nid = self.inode.get(|i| i.nid(index));
            if nid != Nid::NONE && !self.spares(&tree) && self.subtree(nid, tree)? {
                self.volume.set_child(self.op, &self.inode.frame, 0, index, Nid::NONE);
            }
            if self.budget == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Frees the part of a subtree that the cut takes; true if its root went too. Stops when the budget is 0.
    fn subtree(&mut self, nid: Nid, tree: Subtree) -> Result<bool> {
        let frame = self.volume.tree_node(self.inode, nid, tree.offset)?;
        if tree.height == 0 {
            let blocks = tree.first..tree.first.saturating_add(self.layout.per_node.into());
            let span = Span { frame: frame.clone(), blocks };
            let freed = self.volume.free_slots(self.op, self.inode, &span, self.from..u64::MAX)?;
            self.budget = self.budget.saturating_sub(freed);
        } else {
            self.children(&frame, tree)?;
            if self.budget == 0 {
                return Ok(false);
            }
        }
        // A node that holds something in front of the cut stays.
        if self.from > tree.first && frame.node(|n| n.words.iter().any(|w| w.get() != 0)) {
            return Ok(false);
        }
        self.volume.free_node(self.op, nid, self.inode.ino)?;
        self.volume.add_blocks(self.op, self.inode, -1);
        self.budget = self.budget.saturating_sub(1);
        Ok(true)
    }

    fn children(&mut self, frame: &Arc<NodeFrame>, tree: Subtree) -> Result<()> {
        let node = frame.snapshot();
        for k in (0..N).rev() {
            let nid = node.view::<RawNode>().nid(k);
            let child = tree.child(k, &self.layout);
            if nid != Nid::NONE && !self.spares(&child) && self.subtree(nid, child)? {
                self.volume.set_child(self.op, frame, 1, k, Nid::NONE);
            }
            if self.budget == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// The subtrees of an inode.
fn roots(layout: &InodeLayout) -> [Subtree; 5] {
    // The leftmost direct node of each is as many nodes further on as there are levels.
    let first = |node| first_block(node, layout.slots, layout.per_node).unwrap_or(0);
    ROOTS.map(|(offset, height)| Subtree { offset, height, first: first(offset + height) })
}

impl Volume {
    /// Frees one of the five subtrees of an inode whole.
    pub(crate) fn free_subtree(&self, op: &Op<'_>, inode: &Arc<Inode>, index: u32) -> Result<()> {
        let (layout, nid) = (inode.layout(self.features)?, inode.get(|i| i.nid(index)));
        let Some(&tree) = roots(&layout).get(index as usize).filter(|_| nid != Nid::NONE) else {
            return Ok(());
        };
        let mut cut = Cut { volume: self, op, inode, layout, from: tree.first, budget: usize::MAX };
        cut.subtree(nid, tree)?;
        self.set_child(op, &inode.frame, 0, index, Nid::NONE);
        Ok(())
    }

    /// Frees blocks and nodes from the end of the file backwards down to file block `from`, about `budget` of them at
    /// most; true when nothing is left to free. Subtrees that do not exist cost nothing, so sparse files are fast.
    pub(crate) fn truncate_blocks(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        from: u64,
        budget: usize,
    ) -> Result<bool> {
        inode.pages.lock().drop_range(from..u64::MAX, &self.mem);
        self.forget_extent(op, inode);
        let layout = inode.layout(self.features)?;
        let mut cut = Cut { volume: self, op, inode, layout, from, budget };
        if !cut.roots()? {
            return Ok(false);
        }
        let own = Span { frame: inode.frame.clone(), blocks: 0..layout.slots.into() };
        self.free_slots(op, inode, &own, from..u64::MAX)?;
        Ok(true)
    }

    /// Makes a hole of a range of file blocks. The nodes stay.
    pub(crate) fn free_range(&self, op: &Op<'_>, inode: &Arc<Inode>, range: Range<u64>) -> Result<()> {
        inode.pages.lock().drop_range(range.clone(), &self.mem);
        let mut at = range.start;
        while at < range.end {
            match self.find_span(inode, at)? {
                Place::Missing { next } => at = next,
                Place::Span(span) => {
                    self.free_slots(op, inode, &span, range.clone())?;
                    at = span.blocks.end;
                }
            }
        }
        self.forget_extent(op, inode);
        Ok(())
    }

    /// Empties the slots of one node that lie in a range of file blocks. Returns how many were not empty.
    fn free_slots(&self, op: &Op<'_>, inode: &Inode, span: &Span, range: Range<u64>) -> Result<usize> {
        let slots = span.slots(&range);
        let cluster = Cluster::of(inode);
        let freed = self.look_at_slots(&span.frame, |all| Freed::collect(all, slots.clone(), cluster))?;
        for &addr in &freed.blocks {
            self.checked_addr(&span.frame, addr.0)?;
        }
        if freed.slots == 0 {
            return Ok(0);
        }
        self.edit_slots(op, &span.frame, |all| {
            all.get_mut(slots).unwrap_or_default().fill(U32::new(BlockAddr::NULL.0));
        })?;
        self.segs.invalidate_all(&freed.blocks)?;
        self.counts.release_blocks(freed.counted);
        self.nodes.modify(op, &inode.frame, |block| {
            let raw: &mut RawInode = block.view_mut();
            raw.i_blocks = U64::new(raw.i_blocks.get().saturating_sub(freed.counted).max(1));
            if freed.saved > 0 {
                let mut extra = raw.extra();
                extra.i_compr_blocks = U64::new(extra.i_compr_blocks.get().saturating_sub(freed.saved));
                raw.set_extra(&extra);
            }
        });
        Ok(freed.slots)
    }
}

/// How the blocks of a compressed file count.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    len: usize,
    /// Its saved blocks were given back: the first slot of a compressed cluster does not count.
    released: bool,
}

impl Cluster {
    fn of(inode: &Inode) -> Option<Self> {
        inode.get(|i| {
            i.is_compressed().then(|| Self {
                len: 1 << i.extra().i_log_cluster_size.min(8),
                released: i.inline().contains(Inline::COMPRESS_RELEASED),
            })
        })
    }
}

/// What emptying slots gives back.
#[derive(Debug, Default)]
struct Freed {
    /// Slots that were not empty.
    slots: usize,
    /// Those of them that `i_blocks` counts.
    counted: u64,
    /// Blocks that compression had saved.
    saved: u64,
    blocks: Vec<BlockAddr>,
}

impl Freed {
    fn collect(all: &[U32], slots: Range<usize>, cluster: Option<Cluster>) -> Self {
        let mut freed = Self::default();
        let at = |i: usize| all.get(i).map_or(BlockAddr::NULL, |w| BlockAddr(w.get()));
        for i in slots {
            let addr = at(i);
            if addr == BlockAddr::NULL {
                continue;
            }
            freed.slots += 1;
            if addr.is_real() {
                freed.blocks.push(addr);
            }
            let compressed = cluster.filter(|c| at(i - i % c.len) == BlockAddr::COMPRESS);
            freed.counted += u64::from(addr != BlockAddr::COMPRESS || compressed.is_none_or(|c| !c.released));
            freed.saved += u64::from(!addr.is_real() && compressed.is_some_and(|c| !c.released));
        }
        freed
    }
}
