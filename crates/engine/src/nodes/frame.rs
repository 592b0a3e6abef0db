//! One cached node block.
use crate::block::SharedBlock;
use crate::error::Result;
use crate::lock::{Mutex, ReadGuard, RwLock, WriteGuard, rank};
use crate::memory::Memory;
use crate::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use segno_format::inode::{InodeLayout, RawInode};
use segno_format::node::{NodeKind, RawNode, RawNodeFooter, kind_of_offset};
use segno_format::sit::LogType;
use segno_format::{BlockAddr, Features, Ino, Nid};

/// Whether a node differs from its block on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NodeState {
    Clean,
    /// The block is current, but cleaning moves it: the next checkpoint writes it, fsync need not.
    Moved,
    /// An operation changed it.
    Changed,
}

/// The role of a node in the tree of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Inode,
    /// Holds addresses of data, or attributes.
    Direct,
    /// Holds numbers of nodes. Recovery recreates these nodes, so fsync does not write them.
    Indirect,
}

/// A node block in memory. A write in flight shares the block; a change then continues on a copy.
#[derive(Debug)]
pub struct NodeFrame {
    pub nid: Nid,
    pub ino: Ino,
    pub role: Role,
    block: RwLock<SharedBlock, { rank::FRAME }>,
    state: AtomicU8,
    /// Index in its list of dirty nodes.
    slot: AtomicU32,
    /// The generation of the registry in which it was put on a list.
    generation: AtomicU64,
    /// An address that two slots of the block name, as it was read; only damage brings this about. Otherwise 0.
    named_twice: AtomicU32,
    /// The block for the checkpoint in progress, if the node was changed before it was written. Changes under the
    /// block's lock.
    frozen: Mutex<Option<SharedBlock>, { rank::LEAF }>,
}

impl NodeFrame {
    pub fn new(nid: Nid, ino: Ino, block: SharedBlock) -> Self {
        let offset = block.view::<RawNode>().footer.node_offset();
        let role = match kind_of_offset(offset) {
            _ if nid == ino.nid() => Role::Inode,
            Some(NodeKind::Indirect) | None => Role::Indirect,
            Some(_) => Role::Direct,
        };
        let state = AtomicU8::new(NodeState::Clean as u8);
        Self {
            nid,
            ino,
            role,
            block: RwLock::new(block),
            state,
            slot: AtomicU32::new(0),
            generation: AtomicU64::new(0),
            named_twice: AtomicU32::new(0),
            frozen: Mutex::default(),
        }
    }
    /// The address that two slots name.
    pub(super) fn named_twice(&self) -> BlockAddr {
        BlockAddr(self.named_twice.load(Ordering::Relaxed))
    }
    pub(super) fn set_named_twice(&self, addr: BlockAddr) {
        self.named_twice.store(addr.0, Ordering::Relaxed);
    }
    /// Locks the block for reading.
    pub fn read(&self) -> ReadGuard<'_, SharedBlock, { rank::FRAME }> {
        self.block.read()
    }
    /// A copy-on-write handle to the current block.
    pub fn snapshot(&self) -> SharedBlock {
        self.block.read().clone()
    }
    pub fn is_inode(&self) -> bool {
        self.role == Role::Inode
    }
    /// Reads the block as an inode.
    pub fn inode<R>(&self, f: impl FnOnce(&RawInode) -> R) -> R {
        f(self.block.read().view())
    }
    /// The layout of the inode's block.
    pub fn layout(&self, features: Features) -> Result<InodeLayout> {
        Ok(self.inode(|i| i.layout(features))?)
    }
    /// Reads the block as a direct or indirect node.
    pub fn node<R>(&self, f: impl FnOnce(&RawNode) -> R) -> R {
        f(self.block.read().view())
    }
    /// Locks the block, for [`crate::nodes::NodeCache::modify`] and for writing it out.
    pub(super) fn write(&self) -> WriteGuard<'_, SharedBlock, { rank::FRAME }> {
        self.block.write()
    }
    pub fn footer(&self) -> RawNodeFooter {
        self.node(|n| n.footer)
    }
    /// The log of this node.
    pub fn log(&self) -> LogType {
        match self.role {
            Role::Indirect => LogType::ColdNode,
            _ if self.footer().is_cold() => LogType::WarmNode,
            _ => LogType::HotNode,
        }
    }
    pub fn state(&self) -> NodeState {
        match self.state.load(Ordering::Acquire) {
            0 => NodeState::Clean,
            1 => NodeState::Moved,
            _ => NodeState::Changed,
        }
    }
    pub fn is_dirty(&self) -> bool {
        self.state() != NodeState::Clean
    }
    /// Called by the registry only, which changes state, list and index together under its lock.
    pub(super) fn set_state(&self, state: NodeState) {
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
    /// Keeps the current block for the checkpoint in progress.
    pub(super) fn freeze(&self, block: &SharedBlock) {
        *self.frozen.lock() = Some(block.clone());
    }
    /// The block of an ended generation, for its checkpoint. The frame is clean then, unless it was changed since.
    pub(super) fn take_frozen(&self, mem: &Memory) -> SharedBlock {
        // The lock keeps the frame from being put on a list of the open generation.
        let guard = self.block.write();
        if let Some(frozen) = self.frozen.lock().take() {
            mem.frozen.add(-1);
            return frozen;
        }
        self.set_state(NodeState::Clean);
        guard.clone()
    }
}
