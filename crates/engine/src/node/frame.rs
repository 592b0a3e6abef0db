//! One cached node block.
use crate::lock::{ReadGuard, RwLock, WriteGuard, rank};
use crate::sync::atomic::{AtomicBool, Ordering};
use segno_format::inode::RawInode;
use segno_format::node::{NodeKind, RawNode, RawNodeFooter, kind_of_offset};
use segno_format::sit::LogType;
use segno_format::{Block, Ino, Nid};
use std::sync::Arc;

/// A node block in memory. The bytes are shared with a write in flight; a change then continues on a copy.
#[derive(Debug)]
pub struct NodeFrame {
    pub nid: Nid,
    pub ino: Ino,
    block: RwLock<Arc<Block>, { rank::FRAME }>,
    dirty: AtomicBool,
}

impl NodeFrame {
    pub fn new(nid: Nid, ino: Ino, block: Arc<Block>) -> Self {
        Self { nid, ino, block: RwLock::new(block), dirty: AtomicBool::new(false) }
    }
    /// The bytes, for reading.
    pub fn read(&self) -> ReadGuard<'_, Arc<Block>, { rank::FRAME }> {
        self.block.read()
    }
    /// A copy-on-write handle on the bytes as they are now.
    pub fn snapshot(&self) -> Arc<Block> {
        self.block.read().clone()
    }
    /// Reads the bytes as an inode.
    pub fn inode<R>(&self, f: impl FnOnce(&RawInode) -> R) -> R {
        f(self.block.read().view())
    }
    /// Reads the bytes as a direct or indirect node.
    pub fn node<R>(&self, f: impl FnOnce(&RawNode) -> R) -> R {
        f(self.block.read().view())
    }
    /// The bytes, for [`crate::node::NodeCache::modify`] and for writing.
    pub(super) fn write(&self) -> WriteGuard<'_, Arc<Block>, { rank::FRAME }> {
        self.block.write()
    }
    pub fn footer(&self) -> RawNodeFooter {
        self.node(|n| n.footer)
    }
    /// The log that this node goes to.
    pub fn log(&self) -> LogType {
        let footer = self.footer();
        match kind_of_offset(footer.node_offset()) {
            Some(NodeKind::Indirect) | None => LogType::ColdNode,
            _ if footer.is_cold() => LogType::WarmNode,
            _ => LogType::HotNode,
        }
    }
    pub fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }
    /// Sets the flag; returns what it was. The dirty registry keeps flag and membership together.
    pub(super) fn set_dirty(&self, on: bool) -> bool {
        self.dirty.swap(on, Ordering::AcqRel)
    }
}
