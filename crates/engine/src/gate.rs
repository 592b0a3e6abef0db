//! The operation gate: every change of metadata happens inside it; a checkpoint closes it.
//!
//! An operation takes the inode locks it needs, then enters the gate, and leaves before it drops them. What is done
//! between entering and leaving is in one checkpoint or not at all, and in one epoch of the journal if there is one.
//!
//! An epoch ends without stopping anybody: who enters afterwards is in the next one, and whoever ended it waits for
//! those that entered before. As the inode locks are held, the epochs of an inode's changes never go back.
use crate::journal::Epochs;
use crate::lock::{ReadGuard, RwLock, WriteGuard, rank};
use crate::stat::Recorded;
use crate::sync::atomic::{AtomicU32, Ordering};
use std::marker::PhantomData;

/// See the module.
#[derive(Debug)]
pub struct OpGate {
    checkpoint: RwLock<u64, { rank::GATE }>,
    epochs: Epochs,
}

/// Proof of being inside the gate. Functions that change metadata take it as an argument.
#[derive(Debug)]
pub struct Op<'a> {
    epoch: u64,
    log_epoch: u64,
    joined: Option<&'a AtomicU32>,
    /// `None` inside a closed gate, which is as good.
    _guard: Option<ReadGuard<'a, u64, { rank::GATE }>>,
    _gate: PhantomData<&'a OpGate>,
}

/// Proof that no operation is inside.
pub struct Closed<'a>(WriteGuard<'a, u64, { rank::GATE }>);

impl OpGate {
    /// A gate whose first epoch is the version of the mounted checkpoint, without a journal.
    pub fn new(epoch: u64) -> Self {
        Self { checkpoint: RwLock::new(epoch), epochs: Epochs::default() }
    }
    /// Enters; waits while a checkpoint has the gate closed.
    pub fn enter(&self) -> Op<'_> {
        let guard = self.checkpoint.read();
        let (log_epoch, joined) = self.epochs.join();
        Op { epoch: *guard, log_epoch, joined, _guard: Some(guard), _gate: PhantomData }
    }
    /// Closes; waits for the operations inside to leave.
    pub fn close(&self) -> Closed<'_> {
        Closed(self.checkpoint.write())
    }
    /// Closes if nobody is inside. Who enters meanwhile does not wait.
    pub fn try_close(&self) -> Option<Closed<'_>> {
        self.checkpoint.try_write().map(Closed)
    }
    /// How long joining the journal's epoch takes.
    pub fn join_times(&self) -> Recorded {
        self.epochs.joins.recorded()
    }
    /// The journal epoch that is open; 0 without a journal.
    pub fn log_epoch(&self) -> u64 {
        self.epochs.open()
    }
    /// Opens a journal epoch: the gate is closed, or nobody uses the volume yet. 0 ends journaling at any time.
    pub fn set_log_epoch(&self, epoch: u64) {
        self.epochs.set(epoch);
    }
    /// Ends the open journal epoch and waits for the operations in it. One caller at a time, and only once the epoch
    /// before is written: the two share nothing but the counters.
    pub fn end_log_epoch(&self) -> u64 {
        self.epochs.end()
    }
}

impl Op<'_> {
    /// The checkpoint version this operation builds on; it cannot change while inside.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    /// The journal epoch that the operation is part of; 0 if nothing is to be recorded.
    pub fn log_epoch(&self) -> u64 {
        self.log_epoch
    }
}

impl Drop for Op<'_> {
    fn drop(&mut self) {
        if let Some(active) = self.joined {
            active.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Closed<'_> {
    /// The one who closed the gate may change metadata too: what a checkpoint does is no part of any epoch.
    pub fn op(&self) -> Op<'_> {
        Op { epoch: *self.0, log_epoch: 0, joined: None, _guard: None, _gate: PhantomData }
    }
    /// Operations from now on build on the next checkpoint version.
    pub fn advance(&mut self, epoch: u64) {
        *self.0 = epoch;
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn who_tries_to_close_keeps_nobody_out() {
        let gate = OpGate::new(1);
        let inside = gate.enter();
        std::thread::scope(|s| {
            s.spawn(|| assert!(gate.try_close().is_none()));
        });
        std::thread::scope(|s| {
            s.spawn(|| drop(gate.enter()));
        });
        drop(inside);
        gate.try_close().unwrap().advance(2);
        assert_eq!(gate.enter().epoch(), 2);
    }
}

/// Every schedule of two operations and a checkpoint: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::thread;

    #[test]
    fn an_operation_never_spans_a_checkpoint() {
        loom::model(|| {
            let gate = Arc::new(OpGate::new(1));
            // An operation changes both, one after the other.
            let halves = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
            let operate = |gate: Arc<OpGate>, halves: Arc<(AtomicU64, AtomicU64)>| {
                let op = gate.enter();
                halves.0.fetch_add(1, Ordering::Relaxed);
                let epoch = op.epoch();
                halves.1.fetch_add(1, Ordering::Relaxed);
                assert_eq!(epoch, op.epoch());
                epoch
            };
            let ops: Vec<_> = (0..2)
                .map(|_| {
                    let (gate, halves) = (gate.clone(), halves.clone());
                    thread::spawn(move || operate(gate, halves))
                })
                .collect();
            let in_first = {
                let mut closed = gate.close();
                let seen = halves.0.load(Ordering::Relaxed);
                assert_eq!(seen, halves.1.load(Ordering::Relaxed), "half an operation in the checkpoint");
                closed.advance(2);
                seen
            };
            let epochs: Vec<u64> = ops.into_iter().map(|t| t.join().unwrap()).collect();
            let early = epochs.iter().filter(|&&e| e == 1).count() as u64;
            assert_eq!(
                early, in_first,
                "an operation is in the checkpoint after the one it built on: {epochs:?}"
            );
        });
    }
}
