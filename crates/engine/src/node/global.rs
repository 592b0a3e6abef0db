//! The search that F2FS in the kernel makes at each fsync: through the dirty nodes of all files, in nid order. Kept only
//! while it is asked for, as something to compare the lists with.
use super::frame::{NodeFrame, Role, State};
use crate::lock::{Mutex, rank};
use crate::sync::atomic::{AtomicBool, Ordering};
use segno_format::{Ino, Nid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Nodes taken from the index at a time, as many as the kernel's page vector holds.
const BATCH: usize = 15;

/// Dirty nodes by nid, as the kernel has them in the page cache of the node inode.
#[derive(Debug, Default)]
pub struct GlobalIndex {
    kept: AtomicBool,
    nodes: Mutex<BTreeMap<Nid, Arc<NodeFrame>>, { rank::LEAF }>,
}

impl GlobalIndex {
    fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    /// Starts with these nodes, or ends. Nobody may be marking or clearing nodes meanwhile.
    pub(super) fn keep(&self, nodes: Option<Vec<Arc<NodeFrame>>>) {
        self.kept.store(nodes.is_some(), Ordering::Release);
        *self.nodes.lock() = nodes.into_iter().flatten().map(|f| (f.nid, f)).collect();
    }

    /// A checkpoint takes all nodes.
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

    /// Finds what [`super::DirtyNodes::direct_of`] finds, by looking at every node; counts those looked at.
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

/// The footer tells the owner. A node that fits is looked at again under its lock, as it may have been written meanwhile.
fn is_wanted(frame: &NodeFrame, ino: Ino) -> bool {
    if Nid(frame.footer().ino.get()) != ino || frame.role != Role::Direct {
        return false;
    }
    let _locked = frame.read();
    frame.state() == State::Changed
}
