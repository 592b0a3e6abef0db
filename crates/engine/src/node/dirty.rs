//! Dirty nodes, kept by owner: fsync takes its own without looking at anybody else's.
//!
//! A reference costs 8 bytes in its owner's list, and a frame knows its place there, so that adding and removing take
//! the same time whatever the list's length.
//!
//! They come in generations: a checkpoint ends one and takes all its lists at once. A frame of an ended generation that is
//! changed before the checkpoint has written it keeps what it held for the checkpoint, and is dirty anew.
use super::frame::{NodeFrame, Role, State};
use super::global::GlobalIndex;
use crate::lock::{Mutex, rank};
use crate::memory::Memory;
use crate::sync::atomic::{AtomicU64, Ordering};
use foldhash::HashMap;
use segno_format::{Block, Ino};
use std::sync::Arc;

const SHARDS: usize = 16;
type Shard = HashMap<Ino, Owned>;

/// The registry of the open generation. A frame is in one list exactly while it is not clean in it; its state and its place in the list change under
/// the shard's lock.
#[derive(Debug)]
pub struct DirtyNodes {
    shards: [Mutex<Shard, { rank::DIRTY_NODES }>; SHARDS],
    generation: AtomicU64,
    /// The same nodes in one order for all owners, while fsync is to search as the kernel does.
    pub global: GlobalIndex,
}

/// The dirty nodes of a generation that has ended.
pub struct FrozenNodes {
    shards: Vec<Shard>,
}

impl FrozenNodes {
    pub fn len(&self) -> u64 {
        self.shards.iter().flat_map(HashMap::values).map(|o| o.all().count() as u64).sum()
    }
    /// All of them, in nid order.
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
    /// Direct nodes that an operation changed: what fsync writes besides the inode block, neither more nor less.
    direct: Vec<Arc<NodeFrame>>,
    /// The inode block, indirect nodes, and nodes that cleaning moves.
    rest: Vec<Arc<NodeFrame>>,
}

impl Owned {
    fn list(&mut self, role: Role, state: State) -> &mut Vec<Arc<NodeFrame>> {
        if role == Role::Direct && state == State::Changed { &mut self.direct } else { &mut self.rest }
    }

    fn add(&mut self, frame: &Arc<NodeFrame>, state: State) {
        let list = self.list(frame.role, state);
        frame.set_slot(list.len());
        list.push(frame.clone());
        frame.set_state(state);
    }

    /// Takes a frame from the list that its state says it is on.
    fn remove(&mut self, frame: &NodeFrame) {
        let (list, slot) = (self.list(frame.role, frame.state()), frame.slot());
        debug_assert!(
            list.get(slot).is_some_and(|f| std::ptr::eq(&**f, frame)),
            "{frame:?} is not in its place"
        );
        if slot < list.len() {
            list.swap_remove(slot);
        }
        if let Some(moved) = list.get(slot) {
            moved.set_slot(slot);
        }
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

    /// What the frame is in the open generation.
    fn state_of(&self, frame: &NodeFrame) -> State {
        if frame.generation() == self.generation() { frame.state() } else { State::Clean }
    }

    /// An operation is about to change the node. The caller holds the frame's lock, so that whoever clears it meanwhile
    /// writes the change, and is inside the gate.
    pub fn mark(&self, frame: &Arc<NodeFrame>, block: &Arc<Block>, mem: &Memory) {
        self.raise(frame, block, State::Changed, mem);
    }

    /// Cleaning wants the node elsewhere. The rest as above.
    pub fn mark_moved(&self, frame: &Arc<NodeFrame>, block: &Arc<Block>, mem: &Memory) {
        self.raise(frame, block, State::Moved, mem);
    }

    fn raise(&self, frame: &Arc<NodeFrame>, block: &Arc<Block>, to: State, mem: &Memory) {
        if self.state_of(frame) as u8 >= to as u8 {
            return;
        }
        let mut shard = self.shard(frame.ino).lock();
        let before = self.state_of(frame);
        if before as u8 >= to as u8 {
            return;
        }
        if frame.generation() != self.generation() && frame.is_dirty() {
            frame.freeze(block);
            mem.frozen.add(1);
        }
        let owned = shard.entry(frame.ino).or_default();
        if before == State::Clean {
            mem.dirty_nodes.add(1);
            self.global.insert(frame);
        } else {
            owned.remove(frame);
        }
        frame.set_generation(self.generation());
        owned.add(frame, to);
    }

    /// The frame is being written, or was freed. What an ended generation has of it stays.
    pub fn clear(&self, frame: &NodeFrame, mem: &Memory) {
        let mut shard = self.shard(frame.ino).lock();
        if self.state_of(frame) == State::Clean {
            return;
        }
        mem.dirty_nodes.add(-1);
        self.global.remove(frame.nid);
        if let Some(owned) = shard.get_mut(&frame.ino) {
            owned.remove(frame);
            if owned.all().next().is_none() {
                shard.remove(&frame.ino);
            }
        }
        frame.set_state(State::Clean);
    }

    /// Ends the generation. The gate is closed, and everything of the one before was written.
    pub fn freeze(&self) -> FrozenNodes {
        self.global.restart();
        let shards = self.shards.iter().map(|s| std::mem::take(&mut *s.lock())).collect();
        self.generation.fetch_add(1, Ordering::AcqRel);
        FrozenNodes { shards }
    }

    /// The changed direct nodes of an inode, in nid order: what fsync writes besides the inode block.
    pub fn direct_of(&self, ino: Ino) -> Vec<Arc<NodeFrame>> {
        let mut list = self.shard(ino).lock().get(&ino).map(|o| o.direct.clone()).unwrap_or_default();
        list.sort_unstable_by_key(|f| f.nid);
        list
    }

    /// Whether the inode has a changed direct node.
    pub fn has_direct(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|o| !o.direct.is_empty())
    }

    /// Whether any node of the inode was changed.
    pub fn has_changed(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|o| o.all().any(|f| f.state() == State::Changed))
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

    /// Makes or drops the order over all owners. Nobody may be marking or clearing meanwhile.
    pub fn keep_global(&self, keep: bool) {
        let all = if keep { self.all() } else { Vec::new() };
        self.global.keep(keep.then_some(all));
    }

    /// In debug builds: every frame is on the list of its owner, role and state, at the place it knows.
    fn verify(&self) {
        #[cfg(debug_assertions)]
        for shard in &self.shards {
            for (ino, owned) in &mut *shard.lock() {
                assert!(owned.all().next().is_some(), "{ino} has empty lists");
                for (list, direct) in [(&owned.direct, true), (&owned.rest, false)] {
                    for (slot, f) in list.iter().enumerate() {
                        let fits = (f.role == Role::Direct && f.state() == State::Changed) == direct;
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
    use segno_format::node::{RawNode, RawNodeFooter};
    use segno_format::{Block, Nid};

    const FILE: Ino = Nid(20);
    /// Node offsets of the first direct and the first indirect node.
    const OFFSETS: [u32; 2] = [1, 3];

    fn frame(nid: u32, offset: u32) -> Arc<NodeFrame> {
        let mut block = Block::zeroed();
        block.view_mut::<RawNode>().footer = RawNodeFooter::new(Nid(nid), FILE, offset, true);
        Arc::new(NodeFrame::new(Nid(nid), FILE, Arc::new(block)))
    }

    fn nids(frames: &[Arc<NodeFrame>]) -> Vec<u32> {
        frames.iter().map(|f| f.nid.0).collect()
    }

    #[test]
    fn only_changed_direct_nodes_are_what_fsync_finds() {
        let (dirty, mem) = (DirtyNodes::new(), Memory::default());
        let (inode, direct, indirect) = (frame(20, 0), frame(21, OFFSETS[0]), frame(22, OFFSETS[1]));
        assert_eq!([inode.role, direct.role, indirect.role], [Role::Inode, Role::Direct, Role::Indirect]);
        for f in [&inode, &direct, &indirect] {
            dirty.mark_moved(f, &f.snapshot(), &mem);
        }
        assert!(!dirty.has_direct(FILE) && !dirty.has_changed(FILE), "cleaning changes nothing");
        dirty.mark(&indirect, &indirect.snapshot(), &mem);
        assert!(!dirty.has_direct(FILE) && dirty.has_changed(FILE));
        dirty.mark(&direct, &direct.snapshot(), &mem);
        dirty.mark_moved(&direct, &direct.snapshot(), &mem);
        assert_eq!((nids(&dirty.direct_of(FILE)), direct.state()), (vec![21], State::Changed));
        assert_eq!((nids(&dirty.all()), mem.dirty_nodes.get()), (vec![20, 21, 22], 3));
        for f in [&inode, &direct, &indirect] {
            dirty.clear(f, &mem);
            dirty.clear(f, &mem);
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
                0 => dirty.mark(f, &f.snapshot(), &mem),
                1 => dirty.mark_moved(f, &f.snapshot(), &mem),
                _ => dirty.clear(f, &mem),
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
            let frame = Arc::new(NodeFrame::new(Nid(7), Nid(5), Arc::new(Block::zeroed())));
            LoomArc::new(Self { nodes: DirtyNodes::new(), frame, mem: Memory::default() })
        }
        /// What `NodeCache::modify` does.
        fn change(&self) {
            let mut guard = self.frame.write();
            self.nodes.mark(&self.frame, &guard, &self.mem);
            Arc::make_mut(&mut guard).0[0] += 1;
        }
        /// What `Volume::write_nodes` does; returns what went to the device.
        fn write(&self) -> u8 {
            self.nodes.clear(&self.frame, &self.mem);
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
    fn two_who_change_a_node_register_it_once() {
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
    fn a_checkpoint_gets_what_was_there_at_its_boundary() {
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
    fn a_node_that_is_freed_is_in_no_list() {
        loom::model(|| {
            let rig = Rig::new();
            rig.change();
            let writer = {
                let rig = rig.clone();
                thread::spawn(move || rig.write())
            };
            rig.nodes.clear(&rig.frame, &rig.mem);
            writer.join().unwrap();
            assert_eq!((rig.members(), rig.mem.dirty_nodes.get()), (0, 0));
        });
    }
}
