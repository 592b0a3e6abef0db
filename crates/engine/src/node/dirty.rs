//! Dirty nodes, kept by owner: fsync takes its own without looking at anybody else's.
use super::NodeFrame;
use crate::lock::{Mutex, rank};
use crate::memory::Memory;
use segno_format::Ino;
use segno_format::sit::LogType;
use std::collections::HashMap;
use std::sync::Arc;

const SHARDS: usize = 16;
type Shard = HashMap<Ino, Vec<Arc<NodeFrame>>>;

/// The registry. A frame is a member exactly while its dirty flag is set; both change under the shard's lock.
#[derive(Debug)]
pub struct DirtyNodes {
    shards: [Mutex<Shard, { rank::DIRTY_NODES }>; SHARDS],
}

impl DirtyNodes {
    pub fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::new(HashMap::new())) }
    }

    fn shard(&self, ino: Ino) -> &Mutex<Shard, { rank::DIRTY_NODES }> {
        // SHARDS is a power of two, so the mask is always a valid index.
        &self.shards[ino.0 as usize & (SHARDS - 1)]
    }

    /// Adds a frame if it is not a member.
    pub fn mark(&self, frame: &Arc<NodeFrame>, mem: &Memory) {
        if frame.is_dirty() {
            return;
        }
        let mut shard = self.shard(frame.ino).lock();
        if !frame.set_dirty(true) {
            shard.entry(frame.ino).or_default().push(frame.clone());
            mem.dirty_nodes.add(1);
        }
    }

    /// Removes one frame, written or freed.
    pub fn clear(&self, frame: &NodeFrame, mem: &Memory) {
        let mut shard = self.shard(frame.ino).lock();
        if !frame.set_dirty(false) {
            return;
        }
        mem.dirty_nodes.add(-1);
        if let Some(list) = shard.get_mut(&frame.ino) {
            list.retain(|f| f.nid != frame.nid);
            if list.is_empty() {
                shard.remove(&frame.ino);
            }
        }
    }

    /// The inode's own dirty inode block, direct nodes and xattr node: what fsync writes.
    pub fn dnodes_of(&self, ino: Ino) -> Vec<Arc<NodeFrame>> {
        let list = self.shard(ino).lock().get(&ino).cloned().unwrap_or_default();
        list.into_iter().filter(|f| f.log() != LogType::ColdNode).collect()
    }

    /// Every dirty frame, in nid order.
    pub fn all(&self) -> Vec<Arc<NodeFrame>> {
        let mut out: Vec<Arc<NodeFrame>> = Vec::new();
        for shard in &self.shards {
            out.extend(shard.lock().values().flatten().cloned());
        }
        out.sort_unstable_by_key(|f| f.nid);
        out
    }

    /// Whether the inode has any dirty node.
    pub fn has(&self, ino: Ino) -> bool {
        self.shard(ino).lock().contains_key(&ino)
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
            Arc::make_mut(&mut guard).0[0] += 1;
            self.nodes.mark(&self.frame, &self.mem);
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
