//! The boundary of a checkpoint: the moment that it describes.
//!
//! With the gate closed everything that is to be written changes hands: dirty nodes, NAT and SIT changes end a generation,
//! which takes no longer for many than for few. What has still to be given a place first, dirty blocks of directories and
//! of quota files, is placed here and written later; a concurrent checkpoint has written all but a few of them before.
use super::counts::Values;
use crate::data::Batch;
use crate::error::Result;
use crate::gate::Closed;
use crate::journal::Commits;
use crate::node::FrozenNodes;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::volume::Volume;
use segno_format::Ino;

/// What a checkpoint is to write.
pub struct Frozen {
    /// Placed, named by the index, not written.
    pub blocks: Vec<Batch>,
    pub nodes: FrozenNodes,
    pub orphans: Vec<Ino>,
    pub counts: Values,
    /// The last epoch of the journal that it covers; 0 without a journal.
    pub boundary: u64,
    /// Whether operations and commits go on while it is written.
    pub concurrent: bool,
}

impl Volume {
    /// Draws the boundary. Operations from now on belong to the next checkpoint.
    pub(super) fn freeze(
        &self,
        closed: &mut Closed<'_>,
        version: u64,
        commits: Option<&mut Commits>,
    ) -> Result<Frozen> {
        let op = closed.op();
        let mut blocks = Vec::new();
        self.write_quota(&op, &mut blocks)?;
        self.place_directories(&op, &mut blocks)?;
        drop(op);
        self.under_way.begin(version);
        let nodes = self.nodes.dirty.freeze();
        debug_assert_eq!(nodes.len(), self.mem.dirty_nodes.get(), "a dirty node is on no list");
        self.nat.freeze();
        self.segs.with_table(crate::segment::Table::freeze);
        let orphans = self.since.orphans();
        // No fsync looks at these before the checkpoint is durable.
        self.since.committed();
        let counts = self.counts.values();
        self.counts.committed();
        closed.advance(version);
        let boundary = commits.map_or(0, |commits| self.draw_boundary(commits));
        Ok(Frozen { blocks, nodes, orphans, counts, boundary, concurrent: false })
    }
}

/// Whether a checkpoint is between its boundary and its end. What is appended to the roll-forward chain then would follow
/// a checkpoint that is soon replaced by one that does not have it, so fsync waits.
#[derive(Debug)]
pub struct UnderWay {
    on: Mutex<bool>,
    ended: Condvar,
    /// The version that the newest boundary was drawn for.
    drawn: AtomicU64,
}

impl UnderWay {
    /// `version` is that of the checkpoint in force.
    pub fn new(version: u64) -> Self {
        Self { on: Mutex::new(false), ended: Condvar::default(), drawn: AtomicU64::new(version) }
    }
    fn begin(&self, version: u64) {
        *self.on.lock() = true;
        self.drawn.store(version, Ordering::Release);
    }
    /// A checkpoint of a higher version has everything that was done before the call.
    pub fn drawn(&self) -> u64 {
        self.drawn.load(Ordering::Acquire)
    }
    pub fn end(&self) {
        *self.on.lock() = false;
        self.ended.notify_all();
    }
    /// Inside the gate the answer "no" stays true.
    pub fn is_on(&self) -> bool {
        *self.on.lock()
    }
    /// Waits for the end. The gate is not held.
    pub fn wait(&self) {
        let mut on = self.on.lock();
        while *on {
            self.ended.wait(&mut on);
        }
    }
}

/// Every schedule of an fsync and a checkpoint: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::gate::OpGate;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// What `Volume::enter_for_chain` and the two halves of a concurrent checkpoint do.
    #[test]
    fn nothing_is_appended_to_the_chain_between_a_boundary_and_its_end() {
        loom::model(|| {
            let rig = Arc::new((OpGate::new(1), UnderWay::new(1), AtomicBool::new(false)));
            let fsync = {
                let rig = rig.clone();
                thread::spawn(move || {
                    let (gate, under_way, between) = &*rig;
                    loop {
                        let op = gate.enter();
                        if !under_way.is_on() {
                            assert!(
                                !between.load(Ordering::Relaxed),
                                "appended behind a checkpoint that goes"
                            );
                            return op.epoch();
                        }
                        drop(op);
                        under_way.wait();
                    }
                })
            };
            let (gate, under_way, between) = &*rig;
            let mut closed = gate.close();
            under_way.begin(2);
            closed.advance(2);
            between.store(true, Ordering::Relaxed);
            drop(closed);
            assert_eq!(under_way.drawn(), 2);
            between.store(false, Ordering::Relaxed);
            under_way.end();
            assert!((1..=2).contains(&fsync.join().unwrap()));
        });
    }
}
