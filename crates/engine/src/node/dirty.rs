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
