//! The index tree: from a file block to the slot with its address.
use super::NodeFrame;
use super::Nodes;
use crate::error::{Error, Result};
use crate::health::invariant;
use crate::transaction::Op;
use segno_format::inode::{InodeLayout, RawInode};
use segno_format::node::{NodePath, RawNode, path};
use segno_format::{ADDRS_PER_BLOCK, Corrupt, Nid, Structure};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

/// A direct node, or the inode, and the file blocks of its slots.
#[derive(Clone, Debug)]
pub struct Span {
    pub frame: Arc<NodeFrame>,
    pub blocks: Range<u64>,
}

impl Span {
    /// The slot of a file block in the span.
    pub fn slot(&self, fblk: u64) -> u32 {
        fblk.saturating_sub(self.blocks.start) as u32
    }
    /// The slots of the part of a file range that is in the span.
    pub fn slots(&self, range: &Range<u64>) -> Range<usize> {
        let at =
            |b: u64| b.clamp(self.blocks.start, self.blocks.end).saturating_sub(self.blocks.start) as usize;
        at(range.start)..at(range.end)
    }
}

/// Location of the slot of a file block.
#[derive(Clone, Debug)]
pub enum Place {
    Span(Span),
    /// The node does not exist; `next` is the first file block after the missing subtree.
    Missing {
        next: u64,
    },
}

/// The file blocks under the word that the path to `fblk` takes at `level`.
fn under(path: &NodePath, per_node: u64, level: usize, fblk: u64) -> Range<u64> {
    // Number of file blocks under one word.
    let width = |level: usize| match path.depth.saturating_sub(level) {
        0 => 1,
        n => (1..n).fold(per_node, |w, _| w.saturating_mul(ADDRS_PER_BLOCK.into())),
    };
    let below = |l: usize| u64::from(path.index.get(l).copied().unwrap_or(0)).saturating_mul(width(l));
    let start = fblk.saturating_sub((level + 1..=path.depth).map(below).sum());
    start..start.saturating_add(width(level))
}

impl Nodes {
    /// The node with the slot of a file block.
    pub fn find_span(&self, inode: &Arc<NodeFrame>, fblk: u64) -> Result<Place> {
        let layout = inode.layout(self.base.features)?;
        let Some(path) = path(layout.slots, layout.per_node, fblk) else {
            return Ok(Place::Missing { next: u64::MAX });
        };
        let mut frame = inode.clone();
        for level in 0..path.depth {
            let nid = child(&frame, level, &path);
            if nid == Nid::NONE {
                let next = under(&path, layout.per_node.into(), level, fblk).end;
                return Ok(Place::Missing { next });
            }
            frame = self.tree_node(inode, nid, self.step(&path.offset, level + 1)?)?;
        }
        Ok(Place::Span(span(frame, fblk, &path, &layout)))
    }

    /// The existing nodes with slots of a range, in order. Each is looked up when the iterator reaches it.
    pub fn spans(&self, inode: &Arc<NodeFrame>, blocks: Range<u64>) -> impl Iterator<Item = Result<Span>> {
        let mut at = blocks.start;
        std::iter::from_fn(move || {
            while at < blocks.end {
                match self.find_span(inode, at) {
                    Ok(Place::Missing { next }) => at = next,
                    Ok(Place::Span(span)) => {
                        at = span.blocks.end;
                        return Some(Ok(span));
                    }
                    Err(e) => {
                        at = blocks.end;
                        return Some(Err(e));
                    }
                }
            }
            None
        })
    }

    /// The slot of a file block; creates missing nodes of the path. Created nodes stay even if a later one finds no
    /// space: an empty node is legal.
    pub fn dnode_for_write(
        &self,
        op: &Op<'_>,
        inode: &Arc<NodeFrame>,
        fblk: u64,
    ) -> Result<(Arc<NodeFrame>, u32)> {
        let span = self.span_for_write(op, inode, fblk)?;
        let slot = span.slot(fblk);
        Ok((span.frame, slot))
    }

    /// The node with the slot of a file block, created if missing.
    pub fn span_for_write(&self, op: &Op<'_>, inode: &Arc<NodeFrame>, fblk: u64) -> Result<Span> {
        let layout = inode.layout(self.base.features)?;
        let path = path(layout.slots, layout.per_node, fblk).ok_or(Error::FileTooBig)?;
        let mut frame = inode.clone();
        for level in 0..path.depth {
            let nid = child(&frame, level, &path);
            frame = if nid == Nid::NONE {
                self.make_node(op, inode, &frame, level, &path)?
            } else {
                self.tree_node(inode, nid, self.step(&path.offset, level + 1)?)?
            };
        }
        let span = span(frame, fblk, &path, &layout);
        invariant!(self.base.health, span.blocks.contains(&fblk), "a path leads to a node without the block");
        Ok(span)
    }

    /// The element of a path at `level`.
    fn step(&self, path: &[u32], level: usize) -> Result<u32> {
        self.base.health.present(path.get(level).copied(), "a path is shorter than its depth")
    }

    /// A node of the inode, checked against its offset in the tree.
    pub(super) fn tree_node(&self, inode: &Arc<NodeFrame>, nid: Nid, offset: u32) -> Result<Arc<NodeFrame>> {
        let frame = self.base.health.record_damage(self.cache.get_of(nid, inode.ino))?;
        let found = frame.footer().node_offset();
        if found != offset {
            let why = "node offset does not fit the node's place in the tree";
            let wrong = Corrupt::nid(Structure::NodeFooter, nid.0, why, found.into(), offset.into());
            return self.base.health.record_damage(Err(wrong.into()));
        }
        Ok(frame)
    }

    fn make_node(
        &self,
        op: &Op<'_>,
        inode: &Arc<NodeFrame>,
        parent: &Arc<NodeFrame>,
        level: usize,
        path: &NodePath,
    ) -> Result<Arc<NodeFrame>> {
        let nid = self.new_nid(Some(inode.ino))?;
        let offset = self.step(&path.offset, level + 1)?;
        let frame = self.cache.create(op, nid, inode.ino, offset, !inode.inode(RawInode::is_dir));
        let index = self.step(&path.index, level)?;
        let taken = child(parent, level, path) != Nid::NONE;
        invariant!(self.base.health, !taken, "a new node takes the place of another in the index tree");
        self.set_child(op, parent, level, index, nid);
        self.add_blocks(op, inode, 1);
        Ok(frame)
    }

    /// Stores the nid of a child in the inode (level 0) or in an indirect node.
    pub fn set_child(&self, op: &Op<'_>, parent: &Arc<NodeFrame>, level: usize, index: u32, nid: Nid) {
        self.cache.modify(op, parent, |block| match level {
            0 => block.view_mut::<RawInode>().set_nid(index, nid),
            _ => block.view_mut::<RawNode>().set(index, nid.0),
        });
    }

    /// Changes `i_blocks`.
    pub fn add_blocks(&self, op: &Op<'_>, inode: &Arc<NodeFrame>, delta: i64) {
        if delta != 0 {
            let wrong = self.cache.modify_inode(op, inode, |raw| {
                // The count includes the inode block.
                let blocks = raw.i_blocks.get().checked_add_signed(delta).filter(|&n| n > 0);
                raw.i_blocks = U64::new(blocks.unwrap_or(1));
                blocks.is_none()
            });
            if wrong {
                let (ino, less) = (inode.ino.0, delta.unsigned_abs());
                self.base.health.note_damage(&Corrupt::nid(Structure::Inode, ino, "i_blocks", 0, less));
            }
        }
    }

    /// Clears the cached extent if it may be wrong; an empty one is always right.
    pub fn forget_extent(&self, op: &Op<'_>, inode: &Arc<NodeFrame>) {
        if inode.inode(|i| i.i_ext.len.get()) != 0 {
            self.cache.modify_inode(op, inode, |i| i.i_ext.len = U32::new(0));
        }
    }
}

/// The nid at the path's index in a node at `level`.
fn child(frame: &NodeFrame, level: usize, path: &NodePath) -> Nid {
    let index = path.index.get(level).copied().unwrap_or(0);
    if level == 0 { frame.inode(|i| i.nid(index)) } else { frame.node(|n| n.nid(index)) }
}

fn span(frame: Arc<NodeFrame>, fblk: u64, path: &NodePath, layout: &InodeLayout) -> Span {
    let slots = if path.depth == 0 { layout.slots } else { layout.per_node };
    let slot = path.index.get(path.depth).copied().unwrap_or(0);
    let first = fblk.saturating_sub(slot.into());
    Span { frame, blocks: first..first.saturating_add(slots.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reach_covers_the_block_and_whole_subtrees() {
        for (a, p) in [(923u32, 1018u32), (864, 1016)] {
            let (ap, pp, n) = (u64::from(a), u64::from(p), 1018);
            let double = ap + 2 * pp + 2 * pp * n;
            for (fblk, level, expected) in [
                (ap + 5, 0, ap..ap + pp),
                (ap + 2 * pp + 3 * pp + 7, 0, ap + 2 * pp..ap + 2 * pp + pp * n),
                (ap + 2 * pp + 3 * pp + 7, 1, ap + 5 * pp..ap + 6 * pp),
                (double + 9, 0, double..double + pp * n * n),
                (double + pp * n + pp + 9, 1, double + pp * n..double + 2 * pp * n),
                (double + pp * n + pp + 9, 2, double + pp * n + pp..double + pp * n + 2 * pp),
            ] {
                let path = path(a, p, fblk).unwrap();
                assert_eq!(under(&path, pp, level, fblk), expected, "block {fblk} level {level}");
            }
        }
    }
}
