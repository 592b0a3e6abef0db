//! Nodes written to the chain ahead of a boundary. An fsync waits from the boundary to the end of a
//! checkpoint, and most of that time was spent writing nodes. Fsyncs continue while nodes are written ahead.
//!
//! These nodes carry no mark, so recovery treats them as nodes of an fsync that did not return. If an fsync
//! of the inode follows in the chain and returns, they are the nodes that it would have written. So an fsync
//! of a clean inode may still have to write a mark ([`Change::WrittenAhead`]). The chain's lock excludes an
//! fsync and a batch from each other; no batch holds it for long.
use crate::commit::Commit;
use crate::error::Result;
use crate::nodes::{Change, Marks, NodeFrame, NodeState, NodeWrite};
use crate::stat;
use segno_format::sit::LogType;
use std::sync::Arc;

/// Nodes written under one hold of the chain's lock: the size of a large write.
const BATCH: usize = 128;
/// Writers may change nodes again as fast as they are written.
const ROUNDS: usize = 3;
/// A checkpoint with fewer dirty nodes is short.
const FEW: usize = 16;

impl Commit {
    /// Writes most nodes of files for the checkpoint whose boundary is about to be drawn. Stops when few are
    /// left, after [`ROUNDS`], or if there is no room to write a node twice. With a journal no fsync waits
    /// for a checkpoint.
    pub fn write_nodes_ahead(&self) -> Result<()> {
        if self.journal().is_some() {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            let mut nodes = self.nodes.cache.dirty.all();
            nodes.retain(is_for_chain);
            if nodes.len() < FEW {
                break;
            }
            for batch in nodes.chunks(BATCH) {
                if !self.write_batch_ahead(batch)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns false if the rest is left to the checkpoint.
    fn write_batch_ahead(&self, batch: &[Arc<NodeFrame>]) -> Result<bool> {
        let op = self.enter_for_chain()?;
        let mut chain = self.base.tx.chain.lock();
        // An fsync may have written some.
        let write = |frame: &Arc<NodeFrame>| NodeWrite { frame: frame.clone(), marks: Marks::default() };
        let nodes: Vec<_> = batch.iter().filter(|frame| is_for_chain(frame)).map(write).collect();
        let Some(promised) = self.files.room.promise_chain(nodes.len()) else { return Ok(false) };
        if self.nodes.since.is_chain_broken() {
            return Ok(false);
        }
        // Before they are clean.
        nodes.iter().for_each(|node| self.nodes.since.add(node.frame.ino, Change::WrittenAhead));
        let follows = self.append(&op, &mut chain, &nodes)?;
        drop(promised);
        stat::add(&self.base.stats.nodes_ahead, nodes.len() as u64);
        Ok(follows)
    }
}

/// Whether a node may be written to the chain. A node that cleaning only moves is left to the checkpoint;
/// nodes of directories are in another log.
fn is_for_chain(frame: &Arc<NodeFrame>) -> bool {
    frame.state() == NodeState::Changed && frame.log() == LogType::WarmNode
}

/// Explores all schedules of a batch, the boundary after it, and an fsync:
/// `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::commit::checkpoint::InProgress;
    use crate::nodes::SinceCheckpoint;
    use crate::transaction::Transactions;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering};
    use loom::thread;
    use segno_format::Ino;

    const INO: Ino = Ino(7);

    struct Rig {
        tx: Transactions,
        in_progress: InProgress,
        since: SinceCheckpoint,
        dirty: AtomicBool,
        durable: AtomicBool,
    }

    /// The steps of `write_batch_ahead`, `checkpoint_concurrently` and `log_in_gate`.
    #[test]
    fn an_fsync_marks_what_a_batch_wrote_or_finds_it_durable() {
        loom::model(|| {
            let rig = Arc::new(Rig {
                tx: Transactions::new(1, 0),
                in_progress: InProgress::new(1),
                since: SinceCheckpoint::default(),
                dirty: AtomicBool::new(true),
                durable: AtomicBool::new(false),
            });
            let fsync = {
                let rig = rig.clone();
                thread::spawn(move || {
                    loop {
                        let op = rig.tx.begin();
                        if !rig.in_progress.is_on() {
                            let _chain = rig.tx.chain.lock();
                            if rig.since.has(INO, Change::WrittenAhead) || rig.dirty.load(Ordering::Relaxed) {
                                rig.dirty.store(false, Ordering::Relaxed);
                                rig.since.marked(INO);
                                return true;
                            }
                            return rig.durable.load(Ordering::Relaxed);
                        }
                        drop(op);
                        rig.in_progress.wait();
                    }
                })
            };
            {
                let _op = rig.tx.begin();
                let _chain = rig.tx.chain.lock();
                if rig.dirty.load(Ordering::Relaxed) {
                    rig.since.add(INO, Change::WrittenAhead);
                    rig.dirty.store(false, Ordering::Relaxed);
                }
            }
            let mut closed = rig.tx.close_gate();
            _ = rig.in_progress.begin(2);
            rig.since.committed();
            closed.advance(2);
            drop(closed);
            rig.durable.store(true, Ordering::Relaxed);
            rig.in_progress.end();
            assert!(
                fsync.join().unwrap(),
                "an fsync returned for an inode that is neither marked nor in a checkpoint"
            );
        });
    }
}
