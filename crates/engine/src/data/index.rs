//! The index tree: from a file block to the slot that names its address.
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::node::NodeFrame;
use crate::volume::Volume;
use segno_format::inode::{InodeLayout, RawInode};
use segno_format::node::{NodePath, RawNode, path};
use segno_format::{ADDRS_PER_BLOCK, Corrupt, Nid, Structure};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

/// A direct node, or the inode, and the file blocks that its slots stand for.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub frame: Arc<NodeFrame>,
    pub blocks: Range<u64>,
}

impl Span {
    /// The slot of a file block, which must lie inside.
    pub fn slot(&self, fblk: u64) -> u32 {
        fblk.saturating_sub(self.blocks.start) as u32
    }
    /// The slots of the part of a file range that lies inside.
    pub fn slots(&self, range: &Range<u64>) -> Range<usize> {
        let at =
            |b: u64| b.clamp(self.blocks.start, self.blocks.end).saturating_sub(self.blocks.start) as usize;
        at(range.start)..at(range.end)
    }
}

/// Where the slot of a file block is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Span(Span),
    /// No node there; `next` is the first file block after the missing subtree.
    Missing {
        next: u64,
    },
}

/// What lies at and after a file block on its path: the blocks under each level.
struct Reach<'a> {
    path: &'a NodePath,
    per_node: u64,
}

impl Reach<'_> {
    /// File blocks under one word at `level` of the path.
    fn width(&self, level: usize) -> u64 {
        match self.path.depth.saturating_sub(level) {
            0 => 1,
            n => (1..n).fold(self.per_node, |w, _| w.saturating_mul(ADDRS_PER_BLOCK.into())),
        }
    }
    /// The file blocks under the word that the path takes at `level`; `fblk` is where the path leads.
    fn under(&self, level: usize, fblk: u64) -> Range<u64> {
        let below =
            |l: usize| u64::from(self.path.index.get(l).copied().unwrap_or(0)).saturating_mul(self.width(l));
        let start = fblk.saturating_sub((level + 1..=self.path.depth).map(below).sum());
        start..start.saturating_add(self.width(level))
    }
}

impl Volume {
    /// The node that has the slot of a file block, if it exists.
    pub(crate) fn find_dnode(&self, inode: &Inode, fblk: u64) -> Result<Option<Arc<NodeFrame>>> {
        Ok(match self.find_span(inode, fblk)? {
            Place::Span(span) => Some(span.frame),
            Place::Missing { .. } => None,
        })
    }

    /// The node that has the slot of a file block.
    pub(super) fn find_span(&self, inode: &Inode, fblk: u64) -> Result<Place> {
        let layout = inode.layout(self.features)?;
        let Some(path) = path(layout.slots, layout.per_node, fblk) else {
            return Ok(Place::Missing { next: u64::MAX });
        };
        let mut frame = inode.frame.clone();
        for level in 0..path.depth {
            let nid = child(&frame, level, &path);
            if nid == Nid::NONE {
                let reach = Reach { path: &path, per_node: layout.per_node.into() };
                return Ok(Place::Missing { next: reach.under(level, fblk).end });
            }
            frame = self.node_on_path(inode, nid, level + 1, &path)?;
        }
        Ok(Place::Span(span(frame, fblk, &path, &layout)))
    }

    /// The slot of a file block, making the nodes that are missing on the way. Cached nodes that were made stay even if
    /// a later one finds no space: an empty node is legal.
    pub(crate) fn dnode_for_write(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        fblk: u64,
    ) -> Result<(Arc<NodeFrame>, u32)> {
        let span = self.span_for_write(op, inode, fblk)?;
        let slot = span.slot(fblk);
        Ok((span.frame, slot))
    }

    /// The node that has the slot of a file block, made if need be.
    pub(super) fn span_for_write(&self, op: &Op<'_>, inode: &Inode, fblk: u64) -> Result<Span> {
        let layout = inode.layout(self.features)?;
        let path = path(layout.slots, layout.per_node, fblk).ok_or(Error::FileTooBig)?;
        let mut frame = inode.frame.clone();
        for level in 0..path.depth {
            let nid = child(&frame, level, &path);
            frame = if nid == Nid::NONE {
                self.make_node(op, inode, &frame, level, &path)?
            } else {
                self.node_on_path(inode, nid, level + 1, &path)?
            };
        }
        Ok(span(frame, fblk, &path, &layout))
    }

    /// A node of the inode, which must be the one that belongs at this place of the tree.
    fn node_on_path(&self, inode: &Inode, nid: Nid, level: usize, path: &NodePath) -> Result<Arc<NodeFrame>> {
        let expected = path.offset.get(level).copied().unwrap_or(0);
        self.tree_node(inode, nid, expected)
    }

    /// A node of the inode with a known place in its tree.
    pub(super) fn tree_node(&self, inode: &Inode, nid: Nid, offset: u32) -> Result<Arc<NodeFrame>> {
        let frame = self.noted(self.nodes.get_of(nid, inode.ino))?;
        let found = frame.footer().node_offset();
        if found != offset {
            let why = "node offset does not fit the node's place in the tree";
            let wrong = Corrupt::nid(Structure::NodeFooter, nid.0, why, found.into(), offset.into());
            return self.noted(Err(wrong.into()));
        }
        Ok(frame)
    }

    fn make_node(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        parent: &Arc<NodeFrame>,
        level: usize,
        path: &NodePath,
    ) -> Result<Arc<NodeFrame>> {
        self.counts.reserve_node(false)?;
        let nid = match self.nat.alloc(Some(inode.ino)) {
            Ok(nid) => nid,
            Err(e) => {
                self.counts.release_node(false);
                return Err(e);
            }
        };
        let offset = path.offset.get(level + 1).copied().unwrap_or(0);
        let frame = self.nodes.create(op, nid, inode.ino, offset, !inode.is_dir());
        let index = path.index.get(level).copied().unwrap_or(0);
        self.set_child(op, parent, level, index, nid);
        self.add_blocks(op, inode, 1);
        Ok(frame)
    }

    /// Stores the nid of a child in the inode (level 0) or in an indirect node.
    pub(super) fn set_child(&self, op: &Op<'_>, parent: &Arc<NodeFrame>, level: usize, index: u32, nid: Nid) {
        self.nodes.modify(op, parent, |block| match level {
            0 => block.view_mut::<RawInode>().set_nid(index, nid),
            _ => block.view_mut::<RawNode>().set(index, nid.0),
        });
    }

    /// Changes `i_blocks`.
    pub(crate) fn add_blocks(&self, op: &Op<'_>, inode: &Inode, delta: i64) {
        if delta != 0 {
            self.nodes.modify(op, &inode.frame, |block| {
                let raw: &mut RawInode = block.view_mut();
                // The inode block itself always counts.
                raw.i_blocks = U64::new(raw.i_blocks.get().saturating_add_signed(delta).max(1));
            });
        }
    }

    /// The cached extent no longer tells the truth; an empty one always does.
    pub(super) fn forget_extent(&self, op: &Op<'_>, inode: &Inode) {
        if inode.get(|i| i.i_ext.len.get()) != 0 {
            self.nodes.modify(op, &inode.frame, |b| b.view_mut::<RawInode>().i_ext.len = U32::new(0));
        }
    }
}

/// The nid that the path takes in a node at `level`.
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
    use super::super::test_rig::{BLOCK, Rig};
    use super::*;
    use segno_format::Features;

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
                let reach = Reach { path: &path, per_node: pp };
                assert_eq!(reach.under(level, fblk), expected, "block {fblk} level {level}");
            }
        }
    }

    #[test]
    fn a_tree_that_leads_astray_is_named() {
        let rig = Rig::new(Features::empty());
        let (file, other) = (rig.create(b"f"), rig.create(b"other"));
        let v = &rig.volume;
        // Blocks in a direct node, and below the first indirect one.
        for inode in [&file, &other] {
            for at in [900, 3_000] {
                assert_eq!(v.write(inode.ino, at * BLOCK, b"data").unwrap(), 4);
            }
        }
        let nid = |inode: &Inode, i| inode.get(|raw| raw.nid(i));
        let (direct, indirect) = (nid(&file, 0), nid(&file, 2));
        let cases = [
            (0, nid(&other, 0), "belongs to another inode"),
            (0, file.ino, "node offset"),
            (0, indirect, "node offset"),
            (2, direct, "node offset"),
            (2, Nid(u32::MAX), "out of range"),
            (0, Nid(5_000), "no address"),
        ];
        for (i, wrong, expected) in cases {
            let right = nid(&file, i);
            v.set_child(&v.gate.enter(), &file.frame, 0, i, wrong);
            let at = if i == 0 { 900 } else { 3_000 } * BLOCK;
            let mut found = vec![
                v.read(file.ino, at, &mut [0; 4]).map(drop),
                v.write(file.ino, at, b"x").map(drop),
                v.extents(file.ino).map(drop),
            ];
            if i == 2 {
                // It starts at the end, so nothing was freed before it met the damage.
                found.push(v.truncate_blocks(&v.gate.enter(), &file, 2_900, usize::MAX).map(drop));
            }
            for error in found.into_iter().map(|r| r.unwrap_err().to_string()) {
                assert!(error.contains(expected), "{error}, expected {expected}");
            }
            v.set_child(&v.gate.enter(), &file.frame, 0, i, right);
        }
    }
}
