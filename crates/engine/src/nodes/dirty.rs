//! Dirty nodes by owner: fsync visits only the nodes of its inode.
//!
//! A reference takes 8 bytes in its owner's list. A frame knows its index in the list, so adding and removing take
//! constant time.
//!
//! Lists belong to a generation, which a checkpoint ends and takes as a whole. If a frame of an ended generation is
//! changed before the checkpoint writes it, the frame keeps the old block for the checkpoint and becomes dirty in the
//! open generation.
use super::frame::{NodeFrame, NodeState, Role};
use super::global::GlobalIndex;
use crate::block::SharedBlock;
use crate::lock::{Mutex, rank};
use crate::memory::Memory;
use crate::sync::atomic::{AtomicU64, Ordering};
use foldhash::HashMap;
use segno_format::Ino;
use std::sync::Arc;

const SHARDS: usize = 16;
type Shard = HashMap<Ino, Owned>;

/// The registry of the open generation. A frame is on one list exactly while it is not clean in this generation. Its
/// state and index change under the shard's lock.
#[derive(Debug)]
pub struct DirtyNodes {
    shards: [Mutex<Shard, { rank::DIRTY_NODES }>; SHARDS],
    generation: AtomicU64,
    /// All dirty nodes in one order, kept only while fsync searches as the kernel does.
    pub global: GlobalIndex,
}

/// The dirty nodes of an ended generation.
pub struct FrozenNodes {
    shards: Vec<Shard>,
}

impl FrozenNodes {
    pub fn len(&self) -> u64 {
        self.shards.iter().flat_map(HashMap::values).map(|o| o.all().count() as u64).sum()
    }
    /// All nodes, in nid order.
    pub fn take(&mut self) -> Vec<Arc<NodeFrame>> {
        let owned = self.shards.drain(..).flat_map(HashMap::into_values);
        let mut out: Vec<Arc<NodeFrame>> = owned.flat_map(|o| o.direct.into_iter().chain(o.rest)).collect();
        out.sort_unstable_by_key(|f| f.nid);
        out
    }
}

/// Dirty nodes of one inode.
#[derive(Debug, Default)]
struct Owned {
    /// Direct nodes that an operation changed: exactly the nodes that fsync writes, apart from the inode
    /// block.
    direct: Vec<Arc<NodeFrame>>,
    /// The inode block, indirect nodes, and nodes that cleaning moves.
    rest: Vec<Arc<NodeFrame>>,
}

impl Owned {
    fn list(&mut self, role: Role, state: NodeState) -> &mut Vec<Arc<NodeFrame>> {
        if role == Role::Direct && state == NodeState::Changed { &mut self.direct } else { &mut self.rest }
    }

    fn add(&mut self, frame: &Arc<NodeFrame>, state: NodeState) {
        let list = self.list(frame.role, state);
        frame.set_slot(list.len());
        list.push(frame.clone());
        frame.set_state(state);
    }

    /// Removes a frame from the list given by its state; false if it is not there.
    fn remove(&mut self, frame: &NodeFrame) -> bool {
        let (list, slot) = (self.list(frame.role, frame.state()), frame.slot());
        let there = list.get(slot).is_some_and(|f| std::ptr::eq(&**f, frame));
        if there {
            list.swap_remove(slot);
        }
        if let Some(moved) = list.get(slot) {
            moved.set_slot(slot);
        }
        there
    }

    fn all(&self) -> impl Iterator<Item = &Arc<NodeFrame>> {
        self.direct.iter().chain(&self.rest)
    }
}

impl DirtyNodes {
    pub fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(HashMap::default())),
            generation: AtomicU64::new(1),
            global: GlobalIndex::default(),
        }
    }

    fn shard(&self, ino: Ino) -> &Mutex<Shard, { rank::DIRTY_NODES }> {
        // SHARDS is a power of two, so the mask is always a valid index.
        &self.shards[ino.0 as usize & (SHARDS - 1)]
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// State of the frame in the open generation.
    fn state_of(&self, frame: &NodeFrame) -> NodeState {
        if frame.generation() == self.generation() { frame.state() } else { NodeState::Clean }
    }

    /// Marks a node dirty that an operation is about to change. The caller is inside the gate and holds the frame's
    /// lock, so that a concurrent writer includes the change. False if the registry and the frame disagree.
    /// A node that cleaning moves is no change.
    #[must_use]
    pub fn mark(&self, frame: &Arc<NodeFrame>, block: &SharedBlock, to: NodeState, mem: &Memory) -> bool {
        if self.state_of(frame) as u8 >= to as u8 {
            return true;
        }
        let mut shard = self.shard(frame.ino).lock();
        let before = self.state_of(frame);
        if before as u8 >= to as u8 {
            return true;
        }
        if frame.generation() != self.generation() && frame.is_dirty() {
            frame.freeze(block);
            mem.frozen.add(1);
        }
        let owned = shard.entry(frame.ino).or_default();
        let was_listed = before == NodeState::Clean || owned.remove(frame);
        if before == NodeState::Clean {
            mem.dirty_nodes.add(1);
            self.global.insert(frame);
        }
        frame.set_generation(self.generation());
        owned.add(frame, to);
        was_listed
    }

    /// Marks a frame clean that is being written, or was freed. A block kept for an ended generation stays. False if
    /// the registry and the frame disagree.
    #[must_use]
    pub fn clear(&self, frame: &NodeFrame, mem: &Memory) -> bool {
        let mut shard = self.shard(frame.ino).lock();
        if self.state_of(frame) == NodeState::Clean {
            return true;
        }
        mem.dirty_nodes.add(-1);
        self.global.remove(frame.nid);
        let owned = shard.get_mut(&frame.ino);
        let was_listed = owned.is_some_and(|owned| owned.remove(frame));
        if shard.get(&frame.ino).is_some_and(|owned| owned.all().next().is_none()) {
            shard.remove(&frame.ino);
        }
        frame.set_state(NodeState::Clean);
        was_listed
    }

    /// Ends the generation. The gate is closed, and the previous generation was written.
    pub fn freeze(&self) -> FrozenNodes {
        self.global.restart();
        let shards = self.shards.iter().map(|s| std::mem::take(&mut *s.lock())).collect();
        self.generation.fetch_add(1, Ordering::AcqRel);
        FrozenNodes { shards }
    }

    /// The changed direct nodes of an inode in nid order, which fsync writes with the inode block.
    pub fn direct_of(&self, ino: Ino) -> Vec<Arc<NodeFrame>> {
        let mut list = self.shard(ino).lock().get(&ino).map(|o| o.direct.clone()).unwrap_or_default();
        list.sort_unstable_by_key(|f| f.nid);
        list
    }

    /// Number of changed direct nodes of an inode.
    pub fn direct_count(&self, ino: Ino) -> usize {
        self.shard(ino).lock().get(&ino).map_or(0, |o| o.direct.len())
    }

    /// Whether the inode has a changed direct node.
    pub fn has_direct(&self, ino: Ino) -> bool {
        self.direct_count(ino) > 0
    }

    /// Whether any node of the inode was changed.
    pub fn has_changed(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|o| o.all().any(|f| f.state() == NodeState::Changed))
    }

    /// Every dirty frame, in nid order.
    pub fn all(&self) -> Vec<Arc<NodeFrame>> {
        self.verify();
        let mut out: Vec<Arc<NodeFrame>> = Vec::new();
        for shard in &self.shards {
            out.extend(shard.lock().values().flat_map(Owned::all).cloned());
        }
        out.sort_unstable_by_key(|f| f.nid);
        out
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|s| s.lock().is_empty())
    }

    /// Builds or drops the order over all owners. No node may be marked or cleared meanwhile.
    pub fn keep_global(&self, keep: bool) {
        let all = if keep { self.all() } else { Vec::new() };
        self.global.keep(keep.then_some(all));
    }

    /// Checks in debug builds that every frame is on the list of its owner, role and state, at its index.
    fn verify(&self) {
        #[cfg(debug_assertions)]
        for shard in &self.shards {
            for (ino, owned) in &mut *shard.lock() {
                assert!(owned.all().next().is_some(), "{ino} has empty lists");
                for (list, direct) in [(&owned.direct, true), (&owned.rest, false)] {
                    for (slot, f) in list.iter().enumerate() {
                        let fits = (f.role == Role::Direct && f.state() == NodeState::Changed) == direct;
                        assert!(
                            f.is_dirty()
                                && f.generation() == self.generation()
                                && fits
                                && f.ino == *ino
                                && f.slot() == slot,
                            "{f:?} on a wrong list"
                        );
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::shared;
    use segno_format::node::{RawNode, RawNodeFooter};
    use segno_format::{Block, Nid};

    const FILE: Ino = Ino(20);
    /// Node offsets of the first direct and the first indirect node.
    const OFFSETS: [u32; 2] = [1, 3];

    fn frame(nid: u32, offset: u32) -> Arc<NodeFrame> {
        let mut block = Block::zeroed();
        block.view_mut::<RawNode>().footer = RawNodeFooter::new(Nid(nid), FILE, offset, true);
        Arc::new(NodeFrame::new(Nid(nid), FILE, shared(block)))
    }

    fn nids(frames: &[Arc<NodeFrame>]) -> Vec<u32> {
        frames.iter().map(|f| f.nid.0).collect()
    }

    #[test]
    fn fsync_finds_changed_direct_nodes_only() {
        let (dirty, mem) = (DirtyNodes::new(), Memory::default());
        let (inode, direct, indirect) = (frame(20, 0), frame(21, OFFSETS[0]), frame(22, OFFSETS[1]));
        assert_eq!([inode.role, direct.role, indirect.role], [Role::Inode, Role::Direct, Role::Indirect]);
        for f in [&inode, &direct, &indirect] {
            let _ = dirty.mark(f, &f.snapshot(), NodeState::Moved, &mem);
        }
        assert!(!dirty.has_direct(FILE) && !dirty.has_changed(FILE), "cleaning changes nothing");
        let _ = dirty.mark(&indirect, &indirect.snapshot(), NodeState::Changed, &mem);
        assert!(!dirty.has_direct(FILE) && dirty.has_changed(FILE));
        let _ = dirty.mark(&direct, &direct.snapshot(), NodeState::Changed, &mem);
        let _ = dirty.mark(&direct, &direct.snapshot(), NodeState::Moved, &mem);
        assert_eq!((nids(&dirty.direct_of(FILE)), direct.state()), (vec![21], NodeState::Changed));
        assert_eq!((nids(&dirty.all()), mem.dirty_nodes.get()), (vec![20, 21, 22], 3));
        for f in [&inode, &direct, &indirect] {
            let _ = dirty.clear(f, &mem);
            let _ = dirty.clear(f, &mem);
            dirty.verify();
        }
        assert!(dirty.is_empty() && mem.dirty_nodes.get() == 0);
    }

    #[test]
    fn any_order_of_changes_keeps_the_lists_exact() {
        let frames: Vec<_> =
            (0..40).map(|i| frame(20 + i, if i == 0 { 0 } else { OFFSETS[i as usize % 2] })).collect();
        let mut x = 12345_u64;
        let (dirty, mem) = (DirtyNodes::new(), Memory::default());
        dirty.keep_global(true);
        for _ in 0..5000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let f = &frames[(x >> 33) as usize % frames.len()];
            match (x >> 60) % 4 {
                0 => assert!(dirty.mark(f, &f.snapshot(), NodeState::Changed, &mem)),
                1 => assert!(dirty.mark(f, &f.snapshot(), NodeState::Moved, &mem)),
                _ => assert!(dirty.clear(f, &mem)),
            }
            dirty.verify();
        }
        let expected: Vec<u32> = frames.iter().filter(|f| f.is_dirty()).map(|f| f.nid.0).collect();
        assert_eq!((nids(&dirty.all()), mem.dirty_nodes.get()), (expected.clone(), expected.len() as u64));
        let mut searched = 0;
        let found = dirty.global.search(FILE, &mut searched);
        assert_eq!((nids(&found), searched), (nids(&dirty.direct_of(FILE)), expected.len() as u64));
    }
}

/// Every schedule of changes, writes and frees of a node: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::block::shared;
    use loom::sync::Arc as LoomArc;
    use loom::thread;
    use segno_format::{Block, Nid};

    struct Rig {
        nodes: DirtyNodes,
        frame: Arc<NodeFrame>,
        mem: Memory,
    }

    impl Rig {
        fn new() -> LoomArc<Self> {
            let frame = Arc::new(NodeFrame::new(Nid(7), Ino(5), shared(Block::zeroed())));
            LoomArc::new(Self { nodes: DirtyNodes::new(), frame, mem: Memory::default() })
        }
        /// The steps of `NodeCache::modify`.
        fn change(&self) {
            let mut guard = self.frame.write();
            let _ = self.nodes.mark(&self.frame, &guard, NodeState::Changed, &self.mem);
            Arc::make_mut(&mut guard).0[0] += 1;
        }
        /// The steps of `Volume::write_nodes`; returns the byte written to the device.
        fn write(&self) -> u8 {
            let _ = self.nodes.clear(&self.frame, &self.mem);
            self.frame.snapshot().0[0]
        }
        fn members(&self) -> usize {
            self.nodes.all().len()
        }
        fn check(&self, changes: u8, written: u8) {
            let members = self.members();
            assert_eq!(members, usize::from(self.frame.is_dirty()), "flag and membership differ");
            assert_eq!(members as u64, self.mem.dirty_nodes.get());
            assert!(members == 1 || written == changes, "a change is neither written nor registered");
        }
    }

    #[test]
    fn a_change_is_written_or_registered() {
        loom::model(|| {
            let rig = Rig::new();
            rig.change();
            let writer = {
                let rig = rig.clone();
                thread::spawn(move || rig.write())
            };
            rig.change();
            let written = writer.join().unwrap();
            rig.check(2, written);
        });
    }

    #[test]
    fn concurrent_changes_register_a_node_once() {
        loom::model(|| {
            let rig = Rig::new();
            let other = {
                let rig = rig.clone();
                thread::spawn(move || rig.change())
            };
            let writer = {
                let rig = rig.clone();
                thread::spawn(move || rig.write())
            };
            rig.change();
            other.join().unwrap();
            let written = writer.join().unwrap();
            rig.check(2, written);
        });
    }

    #[test]
    fn a_checkpoint_gets_the_state_at_its_boundary() {
        loom::model(|| {
            let rig = Rig::new();
            rig.change();
            let _taken = rig.nodes.freeze();
            let writer = {
                let rig = rig.clone();
                thread::spawn(move || rig.frame.take_frozen(&rig.mem).0[0])
            };
            rig.change();
            assert_eq!(writer.join().unwrap(), 1);
            assert_eq!((rig.members(), rig.frame.is_dirty()), (1, true));
            assert_eq!(rig.frame.snapshot().0[0], 2);
        });
    }

    #[test]
    fn a_freed_node_is_on_no_list() {
        loom::model(|| {
            let rig = Rig::new();
            rig.change();
            let writer = {
                let rig = rig.clone();
                thread::spawn(move || rig.write())
            };
            let _ = rig.nodes.clear(&rig.frame, &rig.mem);
            writer.join().unwrap();
            assert_eq!((rig.members(), rig.mem.dirty_nodes.get()), (0, 0));
        });
    }
}
