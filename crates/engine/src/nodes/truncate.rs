//! Freeing blocks: the tail of a file with its nodes, or a range in the middle.
use super::NodeFrame;
use super::Nodes;
use super::tree::Span;
use crate::error::Result;
use crate::transaction::Op;
use segno_format::inode::{Inline, InodeLayout};
use segno_format::node::{RawNode, first_block};
use segno_format::{ADDRS_PER_BLOCK, BlockAddr, Nid};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

const N: u32 = ADDRS_PER_BLOCK;
/// Slots examined together.
const GROUP: usize = 16;
/// Number of nodes of a whole indirect subtree.
const INDIRECT_NODES: u32 = N + 1;
/// The subtrees of the inode: node offset of the root, and levels of nodes below it.
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
    /// Number of file blocks it covers.
    fn width(&self, layout: &InodeLayout) -> u64 {
        (0..self.height).fold(layout.per_node.into(), |w: u64, _| w.saturating_mul(N.into()))
    }
    /// The subtree at word `k` of the root.
    fn child(&self, k: u32, layout: &InodeLayout) -> Self {
        let height = self.height.saturating_sub(1);
        let nodes = if height == 0 { 1 } else { INDIRECT_NODES };
        let mut child = Self { offset: self.offset + 1 + k * nodes, height, first: self.first };
        child.first += u64::from(k) * child.width(layout);
        child
    }
}

/// A truncation in progress.
struct Cut<'a> {
    nodes: &'a Nodes,
    op: &'a Op<'a>,
    inode: &'a Arc<NodeFrame>,
    layout: InodeLayout,
    from: u64,
    /// Blocks that may still be freed.
    budget: usize,
}

impl Cut<'_> {
    /// Whether a subtree is entirely before the cut.
    fn is_before_cut(&self, tree: &Subtree) -> bool {
        self.from >= tree.first.saturating_add(tree.width(&self.layout))
    }

    /// Frees the subtrees of the inode; true if none is left.
    fn roots(&mut self) -> Result<bool> {
        for (index, tree) in (0..5u32).zip(roots(&self.layout)).rev() {
            let nid = self.inode.inode(|i| i.nid(index));
            if nid != Nid::NONE && !self.is_before_cut(&tree) && self.subtree(nid, tree)? {
                self.nodes.set_child(self.op, self.inode, 0, index, Nid::NONE);
            }
            if self.budget == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Frees the part of a subtree after the cut; true if its root was freed too. Stops when the budget is 0.
    fn subtree(&mut self, nid: Nid, tree: Subtree) -> Result<bool> {
        let frame = self.nodes.tree_node(self.inode, nid, tree.offset)?;
        if tree.height == 0 {
            let blocks = tree.first..tree.first.saturating_add(self.layout.per_node.into());
            let span = Span { frame: frame.clone(), blocks };
            let freed = self.nodes.free_slots(self.op, self.inode, &span, self.from..u64::MAX)?;
            self.budget = self.budget.saturating_sub(freed);
        } else {
            self.children(&frame, tree)?;
            if self.budget == 0 {
                return Ok(false);
            }
        }
        // A node that holds a block before the cut is kept.
        if self.from > tree.first && frame.node(|n| n.words.iter().any(|w| w.get() != 0)) {
            return Ok(false);
        }
        self.nodes.free_node(self.op, nid, self.inode.ino)?;
        self.nodes.add_blocks(self.op, self.inode, -1);
        self.budget = self.budget.saturating_sub(1);
        Ok(true)
    }

    fn children(&mut self, frame: &Arc<NodeFrame>, tree: Subtree) -> Result<()> {
        let node = frame.snapshot();
        for k in (0..N).rev() {
            let nid = node.view::<RawNode>().nid(k);
            let child = tree.child(k, &self.layout);
            if nid != Nid::NONE && !self.is_before_cut(&child) && self.subtree(nid, child)? {
                self.nodes.set_child(self.op, frame, 1, k, Nid::NONE);
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
    // A root's leftmost direct node has its offset plus the number of levels.
    let first = |node| first_block(node, layout.slots, layout.per_node).unwrap_or(0);
    ROOTS.map(|(offset, height)| Subtree { offset, height, first: first(offset + height) })
}

impl Nodes {
    /// Frees one of the five subtrees of an inode completely.
    pub fn free_subtree(&self, op: &Op<'_>, inode: &Arc<NodeFrame>, index: u32) -> Result<()> {
        let (layout, nid) = (inode.layout(self.base.features)?, inode.inode(|i| i.nid(index)));
        let Some(&tree) = roots(&layout).get(index as usize).filter(|_| nid != Nid::NONE) else {
            return Ok(());
        };
        let mut cut = Cut { nodes: self, op, inode, layout, from: tree.first, budget: usize::MAX };
        cut.subtree(nid, tree)?;
        self.set_child(op, inode, 0, index, Nid::NONE);
        Ok(())
    }

    /// Frees about `budget` blocks and nodes from the end of the file down to file block `from`; true when none is
    /// left. Missing subtrees cost nothing, so sparse files are fast.
    pub fn truncate(&self, op: &Op<'_>, inode: &Arc<NodeFrame>, from: u64, budget: usize) -> Result<bool> {
        self.forget_extent(op, inode);
        let layout = inode.layout(self.base.features)?;
        let mut cut = Cut { nodes: self, op, inode, layout, from, budget };
        if !cut.roots()? {
            return Ok(false);
        }
        let own = Span { frame: inode.clone(), blocks: 0..layout.slots.into() };
        self.free_slots(op, inode, &own, from..u64::MAX)?;
        Ok(true)
    }

    /// Punches a hole into a range of file blocks. The nodes are kept.
    pub fn free_range(&self, op: &Op<'_>, inode: &Arc<NodeFrame>, range: Range<u64>) -> Result<()> {
        for span in self.spans(inode, range.clone()) {
            self.free_slots(op, inode, &span?, range.clone())?;
        }
        self.forget_extent(op, inode);
        Ok(())
    }

    /// Clears the slots of one node that are in a range of file blocks. Returns how many were not empty.
    fn free_slots(
        &self,
        op: &Op<'_>,
        inode: &Arc<NodeFrame>,
        span: &Span,
        range: Range<u64>,
    ) -> Result<usize> {
        let slots = span.slots(&range);
        let cluster = Cluster::of(inode);
        let freed = self.look_at_slots(&span.frame, |all| Freed::collect(all, slots.clone(), cluster))?;
        for &addr in &freed.blocks {
            self.checked_addr(&span.frame, addr.0)?;
        }
        if freed.slots == 0 {
            return Ok(0);
        }
        self.edit_slots(op, &span.frame, "slots outside a node are cleared", |all| {
            all.get_mut(slots).map(|slots| slots.fill(U32::new(BlockAddr::NULL.0)))
        })?;
        self.space.invalidate(&freed.blocks)?;
        self.space.counts.release_blocks(freed.counted)?;
        self.cache.modify_inode(op, inode, |raw| {
            raw.i_blocks = U64::new(raw.i_blocks.get().saturating_sub(freed.counted).max(1));
            if freed.saved > 0 {
                raw.edit_extra(|e| {
                    e.i_compr_blocks = U64::new(e.i_compr_blocks.get().saturating_sub(freed.saved))
                });
            }
        });
        Ok(freed.slots)
    }
}

/// How `i_blocks` counts the blocks of a compressed file.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    len: usize,
    /// Its saved blocks were released: the first slot of a compressed cluster does not count.
    released: bool,
}

impl Cluster {
    fn of(inode: &Arc<NodeFrame>) -> Option<Self> {
        inode.inode(|i| {
            i.is_compressed().then(|| Self {
                len: 1 << i.extra().i_log_cluster_size.min(8),
                released: i.inline().contains(Inline::COMPRESS_RELEASED),
            })
        })
    }
}

/// Result of clearing slots.
#[derive(Debug, Default)]
struct Freed {
    /// Number of slots that were not empty.
    slots: usize,
    /// Number of these slots that `i_blocks` counts.
    counted: u64,
    /// Blocks that compression saved.
    saved: u64,
    blocks: Vec<BlockAddr>,
}

impl Freed {
    fn collect(all: &[U32], slots: Range<usize>, cluster: Option<Cluster>) -> Self {
        let mut freed = Self::default();
        let at = |i: usize| all.get(i).map_or(BlockAddr::NULL, |w| BlockAddr(w.get()));
        for i in filled_groups(all, slots).flatten() {
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

/// Groups of a range of slots, without the empty ones: most files fill few slots of their inode.
fn filled_groups(all: &[U32], slots: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = slots.end.min(all.len());
    let words = all.get(slots.start..end).unwrap_or_default();
    (slots.start..).step_by(GROUP).zip(words.chunks(GROUP)).filter_map(|(first, group)| {
        let any = group.iter().fold(0, |any, word| any | word.get());
        (any != BlockAddr::NULL.0).then(|| first..first + group.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_slot_is_collected_wherever_it_is() {
        const SLOTS: usize = 3 * GROUP + 5;
        for filled in 0..SLOTS {
            let mut all = [U32::new(BlockAddr::NULL.0); SLOTS];
            all[filled] = U32::new(BlockAddr::NEW.0);
            for start in 0..SLOTS {
                for end in start..SLOTS + 2 {
                    let freed = Freed::collect(&all, start..end, None);
                    assert_eq!(freed.slots, usize::from((start..end).contains(&filled)), "{start}..{end}");
                    assert_eq!((freed.counted, freed.blocks.len()), (freed.slots as u64, 0));
                }
            }
        }
    }

    #[test]
    fn only_groups_with_a_filled_slot_are_visited() {
        let mut all = [U32::new(BlockAddr::NULL.0); 10 * GROUP];
        all[3 + 2 * GROUP] = U32::new(77);
        let visited: Vec<_> = filled_groups(&all, 3..10 * GROUP).collect();
        assert_eq!(visited, vec![3 + 2 * GROUP..3 + 3 * GROUP]);
    }
}
