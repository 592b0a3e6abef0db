//! The nodes of a file: pointers to them, and nodes that lost their pointer.
use crate::error::Result;
use crate::node::{set_cold, set_footer};
use crate::state::{Node, State};
use segno_format::inode::RawInode;
use segno_format::node::{
    NodeKind, RawNode, RawNodeFooter, SUBTREES, XATTR_NODE_OFFSET, child_offset, first_block, kind_of_offset,
};
use segno_format::{ADDRS_PER_BLOCK, Block, BlockAddr, Ino, Nid};
use std::collections::BTreeMap;

/// A node of the index. Indirect ones have no slots.
struct IndexNode {
    nid: u32,
    /// File block of its first slot.
    first: u64,
    slots: u32,
}

/// A slot in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub nid: u32,
    pub i: u32,
    /// Block of the file.
    pub b: u64,
    pub addr: BlockAddr,
}

/// Nodes by inode and place.
type Places = BTreeMap<(u32, u32), u32>;

/// Makes the pointers of all inodes right.
pub(crate) fn run(state: &mut State<'_>) -> Result<()> {
    let others =
        state.nodes.iter().filter(|(nid, node)| node.ofs != 0 && node.owner == node.ino && **nid != node.ino);
    let places: Places = others.map(|(nid, node)| ((node.ino, node.ofs), *nid)).collect();
    state.inos().into_iter().try_for_each(|ino| Trees { state, places: &places }.inode(ino))
}

/// Makes the pointers of an inode right that nothing referred to before.
pub(crate) fn adopt(state: &mut State<'_>, ino: u32) -> Result<()> {
    Trees { state, places: &Places::new() }.inode(ino)
}

struct Trees<'s, 'a> {
    state: &'s mut State<'a>,
    places: &'s Places,
}

impl Trees<'_, '_> {
    fn inode(&mut self, ino: u32) -> Result<()> {
        let block = self.state.block(ino)?;
        let raw: RawInode = *block.view();
        let xattr = self.child(ino, XATTR_NODE_OFFSET, raw.i_xattr_nid.get())?;
        self.state.inode(ino, |raw| raw.i_xattr_nid.set(xattr))?;
        if !raw.has_index() {
            return Ok(());
        }
        for (i, (depth, ofs)) in (0u32..).zip(SUBTREES) {
            let nid = self.subtree(ino, depth, ofs, raw.nid(i).0)?;
            self.state.inode(ino, |raw| raw.set_nid(i, Nid(nid)))?;
        }
        Ok(())
    }

    /// The node that belongs to a place, or 0; `depth` is 1 for a direct node.
    fn subtree(&mut self, ino: u32, depth: u32, ofs: u32, pointer: u32) -> Result<u32> {
        let mut nid = self.child(ino, ofs, pointer)?;
        if depth == 1 {
            return Ok(nid);
        }
        if nid == 0 {
            let end = child_offset(depth, ofs, ADDRS_PER_BLOCK);
            if self.places.range((ino, ofs)..(ino, end)).next().is_none() {
                return Ok(0);
            }
            nid = self.make(ino, ofs)?;
        }
        let block = self.state.block(nid)?;
        for i in 0..ADDRS_PER_BLOCK {
            let old = block.view::<RawNode>().nid(i).0;
            let new = self.subtree(ino, depth - 1, child_offset(depth, ofs, i), old)?;
            if new != old {
                self.state.change(nid, |block| block.view_mut::<RawNode>().set(i, new))?;
            }
        }
        Ok(nid)
    }

    /// An indirect node in place of one that is gone, as nodes below it are left.
    fn make(&mut self, ino: u32, ofs: u32) -> Result<u32> {
        let Some(nid) = self.state.new_nid() else { return Ok(0) };
        self.insert(ino, ofs, nid, 0)?;
        self.state.note(ino, "an indirect node is made anew from the nodes below it");
        Ok(nid)
    }

    /// The node for a pointer: the one it names if that belongs there, else one whose footer has this place.
    fn child(&mut self, ino: u32, ofs: u32, pointer: u32) -> Result<u32> {
        if pointer != 0 && self.belongs(ino, ofs, pointer) {
            self.take(ino, ofs, pointer)?;
            return Ok(pointer);
        }
        let other = self.places.get(&(ino, ofs)).copied();
        let other = other.filter(|nid| self.belongs(ino, ofs, *nid));
        match (other, pointer) {
            (Some(nid), _) => {
                self.take(ino, ofs, nid)?;
                self.state.note(ino, format!("node {nid} is in its place again"));
                Ok(nid)
            }
            (None, 0) => Ok(0),
            (None, _) if ofs == XATTR_NODE_OFFSET => {
                self.state.lose(ino, "the node of its extended attributes is lost");
                Ok(0)
            }
            (None, _) => {
                let remade = self.remake(ino, ofs, pointer)?;
                let rest = if remade {
                    "it is made anew from the summaries of its blocks"
                } else {
                    "what it held is a hole"
                };
                self.state.lose(ino, format!("node {pointer} is lost; {rest}"));
                Ok(if remade { pointer } else { 0 })
            }
        }
    }

    /// A direct node that is lost, with the blocks that the summaries give to it.
    fn remake(&mut self, ino: u32, ofs: u32, nid: u32) -> Result<bool> {
        let direct = matches!(kind_of_offset(ofs), Some(NodeKind::Direct { .. }));
        let owned = self.state.vol.nat.used(Nid(nid)).is_none_or(|e| e.owner().0 == ino);
        let free = self.state.vol.geo.nid_ok(Nid(nid)) && !self.state.nodes.contains_key(&nid);
        // The marks of compressed clusters are in the node alone.
        if !direct || !owned || !free || self.state.block(ino)?.view::<RawInode>().is_compressed() {
            return Ok(false);
        }
        let slots = self.state.slots_of_lost(nid)?;
        if slots.is_empty() {
            return Ok(false);
        }
        let version = self.state.vol.nat.entry(Nid(nid)).version;
        self.insert(ino, ofs, nid, version)?;
        self.state.change(nid, |block| {
            for (&i, addr) in slots.iter().filter(|(i, _)| **i < ADDRS_PER_BLOCK) {
                block.view_mut::<RawNode>().set(i, addr.0);
            }
        })?;
        Ok(true)
    }

    /// An empty node.
    fn insert(&mut self, ino: u32, ofs: u32, nid: u32, version: u8) -> Result<()> {
        let cold = !self.state.block(ino)?.view::<RawInode>().is_dir();
        let mut block = Block::zeroed();
        block.view_mut::<RawNode>().footer = RawNodeFooter::new(Nid(nid), Ino(ino), ofs, cold);
        let node = Node { addr: BlockAddr::NULL, owner: ino, ino, ofs, version, cp_ver: 0, reached: true };
        self.state.nodes.insert(nid, node);
        self.state.edits.insert(nid, block);
        Ok(())
    }

    /// Two of three agree with the pointer: the owner in the NAT, owner and place in the footer.
    fn belongs(&mut self, ino: u32, ofs: u32, nid: u32) -> bool {
        if !self.state.nodes.contains_key(&nid) && !self.state.adopt(nid) {
            return false;
        }
        let inodes = &self.state.inodes;
        self.state.nodes.get(&nid).is_some_and(|node| {
            let votes = [node.owner == ino, node.ino == ino, node.ofs == ofs];
            !node.reached && !inodes.contains(&nid) && votes.into_iter().filter(|v| *v).count() >= 2
        })
    }

    fn take(&mut self, ino: u32, ofs: u32, nid: u32) -> Result<()> {
        let is_dir = self.state.block(ino)?.view::<RawInode>().is_dir();
        let Some(node) = self.state.nodes.get_mut(&nid) else { return Ok(()) };
        node.reached = true;
        let wrong = (node.owner, node.ino, node.ofs) != (ino, ino, ofs);
        (node.owner, node.ino, node.ofs) = (ino, ino, ofs);
        let changed = self.state.change(nid, |block| {
            set_footer(block, ino, ofs);
            set_cold(block, !is_dir);
        })?;
        if wrong || changed {
            self.state.note(ino, format!("owner or place of node {nid} was wrong"));
        }
        Ok(())
    }
}

impl State<'_> {
    /// The inode and the nodes of its index, in the order of the file; the pointers have been made right.
    fn index(&self, ino: u32) -> Result<Vec<IndexNode>> {
        let block = self.block(ino)?;
        let raw: &RawInode = block.view();
        if !raw.has_index() {
            return Ok(vec![IndexNode { nid: ino, first: 0, slots: 0 }]);
        }
        let layout = self.layout(raw);
        let mut out = vec![IndexNode { nid: ino, first: 0, slots: layout.slots }];
        let mut todo: Vec<_> =
            (0u32..).zip(SUBTREES).map(|(i, (depth, ofs))| (raw.nid(i).0, depth, ofs)).collect();
        todo.reverse();
        while let Some((nid, depth, ofs)) = todo.pop() {
            if nid == 0 {
                continue;
            }
            let first = first_block(ofs, layout.slots, layout.per_node).unwrap_or_default();
            out.push(IndexNode { nid, first, slots: if depth == 1 { layout.per_node } else { 0 } });
            if depth > 1 {
                let block = self.block(nid)?;
                let child = |i| (block.view::<RawNode>().nid(i).0, depth - 1, child_offset(depth, ofs, i));
                todo.extend((0..ADDRS_PER_BLOCK).rev().map(child));
            }
        }
        Ok(out)
    }

    /// All nodes of an inode, its own block first.
    pub(crate) fn nodes_of(&self, ino: u32) -> Result<Vec<u32>> {
        let xattr = self.block(ino)?.view::<RawInode>().i_xattr_nid.get();
        let index = self.index(ino)?.into_iter().map(|node| node.nid);
        Ok(index.chain(Some(xattr).filter(|nid| *nid != 0)).collect())
    }

    /// Slots in use of an inode, in the order of the file.
    pub(crate) fn slots(&self, ino: u32) -> Result<Vec<Slot>> {
        let mut out = Vec::new();
        for node in self.index(ino)?.into_iter().filter(|node| node.slots > 0) {
            let block = self.block(node.nid)?;
            for i in 0..node.slots {
                let addr = self.slot_of(ino, node.nid, &block, i);
                if addr != BlockAddr::NULL {
                    out.push(Slot { nid: node.nid, i, b: node.first + u64::from(i), addr });
                }
            }
        }
        Ok(out)
    }

    fn slot_of(&self, ino: u32, nid: u32, block: &Block, i: u32) -> BlockAddr {
        if nid == ino {
            let raw: &RawInode = block.view();
            raw.slot(&self.layout(raw), i)
        } else {
            block.view::<RawNode>().addr(i)
        }
    }

    /// Stores a slot.
    pub(crate) fn set_slot(&mut self, ino: u32, nid: u32, i: u32, addr: BlockAddr) -> Result<()> {
        let layout = self.layout(self.block(ino)?.view());
        self.change(nid, |block| {
            if nid == ino {
                block.view_mut::<RawInode>().set_slot(&layout, i, addr);
            } else {
                block.view_mut::<RawNode>().set(i, addr.0);
            }
        })?;
        Ok(())
    }

    /// Node and slot of a file's block, with the nodes that lead there made if need be; `None` without a free nid.
    pub(crate) fn place_for(&mut self, ino: u32, b: u64) -> Result<Option<(u32, u32)>> {
        let block = self.block(ino)?;
        let layout = self.layout(block.view());
        let Some(path) = segno_format::node::path(layout.slots, layout.per_node, b) else { return Ok(None) };
        let mut nid = ino;
        for level in 0..path.depth {
            let (Some(&index), Some(&ofs)) = (path.index.get(level), path.offset.get(level + 1)) else {
                return Ok(None);
            };
            let block = self.block(nid)?;
            let child = if nid == ino {
                block.view::<RawInode>().nid(index)
            } else {
                block.view::<RawNode>().nid(index)
            };
            let child = match child.0 {
                0 => Trees { state: self, places: &Places::new() }.make(ino, ofs)?,
                child => child,
            };
            if child == 0 {
                return Ok(None);
            }
            let at_inode = nid == ino;
            self.change(nid, |block| match at_inode {
                true => block.view_mut::<RawInode>().set_nid(index, Nid(child)),
                false => block.view_mut::<RawNode>().set(index, child),
            })?;
            nid = child;
        }
        Ok(path.index.get(path.depth).map(|&i| (nid, i)))
    }
}
