//! Freeing a node.
use crate::error::Result;
use crate::gate::Op;
use crate::volume::Volume;
use segno_format::{Ino, Nid};

impl Volume {
    /// Frees a node that nothing points at any more: its block, its nid, its share of the counters.
    pub(crate) fn free_node(&self, op: &Op<'_>, nid: Nid, ino: Ino) -> Result<()> {
        let addr = self.nat.free(nid)?;
        if let Some(frame) = self.nodes.cached(nid) {
            self.nodes.forget(op, &frame);
        }
        if addr.is_real() {
            if nid != ino {
                self.since.node_freed(ino);
            }
            self.segs.invalidate(addr)?;
        }
        self.counts.release_node(nid == ino);
        Ok(())
    }
}
