//! Files locked for an operation that places blocks, and the room that it requests.
use super::{Files, Inode};
use crate::error::Result;
use crate::lock::{WriteGuard, rank};
use crate::room::Grant;
use segno_clean::need::Request;
use segno_format::inode::Inline;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of nodes that a moving span of slots makes dirty: the span's own, and two that its blocks
/// move to.
const NODES_PER_SPAN: u64 = 3;
/// Indirect nodes and the inode, which new nodes on a path make dirty.
const NODES_OF_PATH: u64 = 4;

/// A file under its exclusive lock, with room for the blocks to be placed.
pub struct Locked<'a> {
    pub granted: Grant<'a>,
    _exclusive: WriteGuard<'a, (), { rank::INODE }>,
}

impl<'a> Locked<'a> {
    pub fn new(inode: &'a Inode, granted: Grant<'a>) -> Self {
        Self { granted, _exclusive: inode.lock.write() }
    }
}

/// Room for the dirty pages of a file. The caller holds its lock.
pub fn request_for_dirty(inode: &Inode) -> Request {
    Request::batch(inode.pages.lock().dirty())
}

impl Files {
    /// Room for changing the slots of a range, with a copy of each block in `copied`. The caller holds the file's lock.
    pub(super) fn request_for_copies(
        &self,
        inode: &Arc<Inode>,
        changed: Range<u64>,
        copied: &Range<u64>,
    ) -> Result<Request> {
        // A page in flight has its new address when it is counted.
        let _flush = inode.flush.lock();
        // A dirty page is written and then copied.
        let dirty = 2 * inode.pages.lock().dirty_in(changed.clone(), usize::MAX).len() as u64;
        let mut request = Request { blocks: dirty, nodes: NODES_OF_PATH };
        if inode.get(|i| i.inline().contains(Inline::DATA)) {
            return Ok(Request { blocks: 2, ..request });
        }
        for span in self.nodes.spans(&inode.frame, changed) {
            let span = span?;
            let addrs = self.nodes.slot_addrs(&span.frame, span.slots(copied))?;
            request.blocks += addrs.iter().filter(|addr| addr.is_real()).count() as u64;
            request.nodes += NODES_PER_SPAN;
        }
        Ok(request)
    }
}
