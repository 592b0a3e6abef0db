//! Freeing a node.
use super::Nodes;
use super::since_checkpoint::Change;
use crate::error::Result;
use crate::health::invariant;
use crate::transaction::Op;
use segno_format::{Ino, Nid};

impl Nodes {
    /// A number for a node of `owner`, or for an inode, with its block reserved.
    pub fn new_nid(&self, owner: Option<Ino>) -> Result<Nid> {
        let is_inode = owner.is_none();
        self.space.counts.reserve_node(is_inode)?;
        self.nat.alloc(owner).or_else(|e| self.space.counts.release_node(is_inode).and(Err(e)))
    }
    /// Frees an unreferenced node: its block, its nid and its counts.
    pub fn free_node(&self, op: &Op<'_>, nid: Nid, ino: Ino) -> Result<()> {
        invariant!(self.base.health, nid != Nid::ROOT, "the root directory is freed");
        let addr = self.nat.free(nid)?;
        if let Some(frame) = self.cache.cached(nid) {
            self.cache.forget(op, &frame);
        }
        if addr.is_real() {
            if nid != ino.nid() {
                self.since.add(ino, Change::NodeFreed);
            }
            self.space.invalidate(&[addr])?;
        }
        self.space.counts.release_node(nid == ino.nid())
    }
}
