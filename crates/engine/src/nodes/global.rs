//! The search that F2FS in the kernel does at each fsync: through the dirty nodes of all files, in nid order. Enabled
//! on request, to compare it with the lists by owner.
use super::frame::{NodeFrame, NodeState, Role};
use crate::lock::{Mutex, rank};
use crate::sync::atomic::{AtomicBool, Ordering};
use segno_format::{Ino, Nid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Nodes taken from the index at a time, as in the kernel's page vector.
const BATCH: usize = 15;

/// Dirty nodes by nid, as in the page cache of the kernel's node inode.
#[derive(Debug, Default)]
pub struct GlobalIndex {
    kept: AtomicBool,
    nodes: Mutex<BTreeMap<Nid, Arc<NodeFrame>>, { rank::LEAF }>,
}

impl GlobalIndex {
    fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    /// Starts with these nodes, or stops. No node may be marked or cleared meanwhile.
    pub(super) fn keep(&self, nodes: Option<Vec<Arc<NodeFrame>>>) {
        self.kept.store(nodes.is_some(), Ordering::Release);
        *self.nodes.lock() = nodes.into_iter().flatten().map(|f| (f.nid, f)).collect();
    }

    /// Clears the index when a checkpoint takes all nodes.
    pub(super) fn restart(&self) {
        self.nodes.lock().clear();
    }

    pub(super) fn insert(&self, frame: &Arc<NodeFrame>) {
        if self.is_kept() {
            self.nodes.lock().insert(frame.nid, frame.clone());
        }
    }

    pub(super) fn remove(&self, nid: Nid) {
        if self.is_kept() {
            self.nodes.lock().remove(&nid);
        }
    }

    /// Finds the same nodes as [`super::DirtyNodes::direct_of`] by examining every node; counts them.
    pub fn search(&self, ino: Ino, searched: &mut u64) -> Vec<Arc<NodeFrame>> {
        let mut found = Vec::new();
        let mut from = Nid(0);
        loop {
            let batch: Vec<Arc<NodeFrame>> =
                self.nodes.lock().range(from..).take(BATCH).map(|(_, f)| f.clone()).collect();
            let Some(last) = batch.last() else { return found };
            from = Nid(last.nid.0.saturating_add(1));
            *searched += batch.len() as u64;
            found.extend(batch.into_iter().filter(|f| is_wanted(f, ino)));
        }
    }
}

/// The footer names the owner. A match is checked again under its lock, as the node may have been written meanwhile.
fn is_wanted(frame: &NodeFrame, ino: Ino) -> bool {
    if Ino(frame.footer().ino.get()) != ino || frame.role != Role::Direct {
        return false;
    }
    let _locked = frame.read();
    frame.state() == NodeState::Changed
}
