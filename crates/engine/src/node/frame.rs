//! One cached node block.
use crate::lock::{Mutex, ReadGuard, RwLock, WriteGuard, rank};
use crate::memory::Memory;
use crate::planted::{Bug, planted};
use crate::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use segno_format::inode::RawInode;
use segno_format::node::{NodeKind, RawNode, RawNodeFooter, kind_of_offset};
use segno_format::sit::LogType;
use segno_format::{Block, Ino, Nid};
use std::sync::Arc;

/// Whether a node differs from its block on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    Clean,
    /// The block is good, but cleaning wants it elsewhere: the next checkpoint writes it, no fsync need.
    Moved,
    /// An operation changed it.
    Changed,
}

/// What a node is to the file that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Inode,
    /// Holds addresses of data, or attributes.
    Direct,
    /// Holds numbers of nodes. Recovery makes these anew, so fsync does not write them.
    Indirect,
}

/// A node block in memory. The bytes are shared with a write in flight; a change then continues on a copy.
#[derive(Debug)]
pub struct NodeFrame {
    pub nid: Nid,
    pub ino: Ino,
    pub role: Role,
    block: RwLock<Arc<Block>, { rank::FRAME }>,
    state: AtomicU8,
    /// Place in the list of dirty nodes that it is on.
    slot: AtomicU32,
    /// The generation of the registry that it was put on a list in.
    generation: AtomicU64,
    /// What the checkpoint on its way is to write, if a change came before it did. Changes under the block's lock.
    frozen: Mutex<Option<Arc<Block>>, { rank::LEAF }>,
}

impl NodeFrame {
    pub fn new(nid: Nid, ino: Ino, block: Arc<Block>) -> Self {
        let offset = block.view::<RawNode>().footer.node_offset();
        let role = match kind_of_offset(offset) {
            _ if nid == ino => Role::Inode,
            Some(NodeKind::Indirect) | None => Role::Indirect,
            Some(_) => Role::Direct,
        };
        let state = AtomicU8::new(State::Clean as u8);
        Self {
            nid,
            ino,
            role,
            block: RwLock::new(block),
            state,
            slot: AtomicU32::new(0),
            generation: AtomicU64::new(0),
            frozen: Mutex::default(),
        }
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
        match self.role {
            Role::Indirect => LogType::ColdNode,
            _ if self.footer().is_cold() => LogType::WarmNode,
            _ => LogType::HotNode,
        }
    }
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Clean,
            1 => State::Moved,
            _ => State::Changed,
        }
    }
    pub fn is_dirty(&self) -> bool {
        self.state() != State::Clean
    }
    /// The dirty registry keeps state, list and place in the list together, under its lock.
    pub(super) fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }
    pub(super) fn slot(&self) -> usize {
        self.slot.load(Ordering::Relaxed) as usize
    }
    pub(super) fn set_slot(&self, slot: usize) {
        self.slot.store(slot as u32, Ordering::Relaxed);
    }
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
    pub(super) fn set_generation(&self, generation: u64) {
        self.generation.store(generation, Ordering::Release);
    }
    /// The bytes as they are now are what the checkpoint on its way writes.
    pub(super) fn freeze(&self, block: &Arc<Block>) {
        *self.frozen.lock() = Some(block.clone());
    }
    /// The bytes of a generation that has ended, for its checkpoint. The frame is clean then, unless it was changed since.
    pub(super) fn take_frozen(&self, mem: &Memory) -> Arc<Block> {
        // Nobody puts the frame on a list of the open generation meanwhile.
        let guard = self.block.write();
        if let Some(frozen) = self.frozen.lock().take() {
            mem.frozen.add(-1);
            return if planted(Bug::BlurredBoundary) { guard.clone() } else { frozen };
        }
        self.set_state(State::Clean);
        guard.clone()
    }
}
