//! The boundary of a checkpoint: the moment that it describes.
//!
//! With the gate closed, all dirty state passes to the checkpoint: dirty nodes, NAT and SIT changes end a generation,
//! in time independent of their number. Dirty blocks of directories and quota files get addresses here and are
//! written later; a concurrent checkpoint has written most of them before.
use crate::commit::Commit;
use crate::commit::journal::Commits;
use crate::error::Result;
use crate::files::Early;
use crate::health::invariant;
use crate::nodes::FrozenNodes;
use crate::space::Values;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::transaction::Closed;
use segno_format::Ino;

/// The state that a checkpoint writes.
pub struct Frozen {
    /// Blocks with an address in the index, not yet written.
    pub blocks: Vec<Early>,
    pub nodes: FrozenNodes,
    pub orphans: Vec<Ino>,
    pub counts: Values,
    /// The last journal epoch that the checkpoint covers; 0 without a journal.
    pub boundary: u64,
    /// Whether operations and commits continue during the write.
    pub concurrent: bool,
}

impl Commit {
    /// Draws the boundary. Later operations belong to the next checkpoint.
    pub fn freeze(
        &self,
        closed: &mut Closed<'_>,
        version: u64,
        commits: Option<&mut Commits>,
    ) -> Result<Frozen> {
        let op = closed.op();
        let mut blocks = Vec::new();
        self.files.write_quota(&op, &mut blocks)?;
        self.files.place_directories(&op, &mut blocks)?;
        drop(op);
        let alone = self.in_progress.begin(version);
        invariant!(self.base.health, alone, "a boundary is drawn while a checkpoint is in progress");
        let nodes = self.nodes.cache.dirty.freeze();
        debug_assert_eq!(nodes.len(), self.base.mem.dirty_nodes.get(), "a dirty node is unlisted");
        self.base.mem.in_checkpoint.set(nodes.len());
        self.nodes.nat.freeze();
        self.nodes.space.with_table(crate::space::Table::freeze);
        let orphans = self.nodes.since.orphans();
        // No fsync reads this set before the checkpoint is durable.
        self.nodes.since.committed();
        let counts = self.nodes.space.counts.values();
        self.nodes.space.counts.committed();
        closed.advance(version);
        let boundary = commits.map_or(0, |commits| self.draw_boundary(commits));
        Ok(Frozen { blocks, nodes, orphans, counts, boundary, concurrent: false })
    }
}

/// Whether a checkpoint is between its boundary and its end. A block appended to the roll-forward chain then would
/// follow a checkpoint about to be replaced by one that lacks it, so fsync waits.
#[derive(Debug)]
pub struct InProgress {
    on: Mutex<bool>,
    ended: Condvar,
    /// Version of the checkpoint with the newest boundary.
    drawn: AtomicU64,
}

impl InProgress {
    /// `version` is that of the current checkpoint.
    pub fn new(version: u64) -> Self {
        Self { on: Mutex::new(false), ended: Condvar::default(), drawn: AtomicU64::new(version) }
    }
    /// Marks a checkpoint as in progress. Returns false if one already is, or if the version is not newer.
    #[must_use]
    pub fn begin(&self, version: u64) -> bool {
        let was_on = std::mem::replace(&mut *self.on.lock(), true);
        let is_newer = version > self.drawn();
        self.drawn.store(version, Ordering::Release);
        !was_on && is_newer
    }
    /// Version of the newest boundary. A checkpoint of a higher version covers everything done before the call.
    pub fn drawn(&self) -> u64 {
        self.drawn.load(Ordering::Acquire)
    }
    pub fn end(&self) {
        *self.on.lock() = false;
        self.ended.notify_all();
    }
    /// Whether a checkpoint is in progress. Inside the gate, `false` stays true.
    pub fn is_on(&self) -> bool {
        *self.on.lock()
    }
    /// Waits until no checkpoint is in progress. The caller is outside the gate.
    pub fn wait(&self) {
        let mut on = self.on.lock();
        while *on {
            self.ended.wait(&mut on);
        }
    }
}

/// Explores all schedules of an fsync and a checkpoint: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::transaction::Transactions;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// Models `Commit::enter_for_chain` and the two halves of a concurrent checkpoint.
    #[test]
    fn no_append_to_the_chain_between_a_boundary_and_its_end() {
        loom::model(|| {
            let rig = Arc::new((Transactions::new(1, 0), InProgress::new(1), AtomicBool::new(false)));
            let fsync = {
                let rig = rig.clone();
                thread::spawn(move || {
                    let (tx, in_progress, between) = &*rig;
                    loop {
                        let op = tx.begin();
                        if !in_progress.is_on() {
                            assert!(
                                !between.load(Ordering::Relaxed),
                                "appended after a checkpoint that is being replaced"
                            );
                            return op.epoch();
                        }
                        drop(op);
                        in_progress.wait();
                    }
                })
            };
            let (tx, in_progress, between) = &*rig;
            let mut closed = tx.close_gate();
            _ = in_progress.begin(2);
            closed.advance(2);
            between.store(true, Ordering::Relaxed);
            drop(closed);
            assert_eq!(in_progress.drawn(), 2);
            between.store(false, Ordering::Relaxed);
            in_progress.end();
            assert!((1..=2).contains(&fsync.join().unwrap()));
        });
    }
}
