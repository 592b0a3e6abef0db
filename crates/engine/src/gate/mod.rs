//! The operation gate. Every change of metadata happens inside it; a checkpoint closes it.
//!
//! An operation takes its inode locks, enters the gate, and leaves it before it releases the locks. All changes in
//! between are in one checkpoint or in none, and in one epoch of the journal if there is one.
//!
//! Ending an epoch blocks no operation: later ones enter the next epoch, and the caller waits for the earlier ones.
//! As inode locks are held across the gate, the epochs of an inode's changes are in order.
mod epochs;

use crate::lock::{ReadGuard, RwLock, WriteGuard, rank};
use crate::sync::atomic::{AtomicU32, Ordering};
use epochs::Epochs;
use std::marker::PhantomData;

/// Gate of a volume.
#[derive(Debug)]
pub struct OpGate {
    checkpoint: RwLock<u64, { rank::GATE }>,
    epochs: Epochs,
}

/// Proof of being inside the gate. Functions that change metadata take it as an argument.
#[derive(Debug)]
pub struct Op<'a> {
    epoch: u64,
    journal_epoch: u64,
    joined: Option<&'a AtomicU32>,
    /// `None` for an operation of the caller that closed the gate.
    _guard: Option<ReadGuard<'a, u64, { rank::GATE }>>,
    _gate: PhantomData<&'a OpGate>,
}

/// Proof that no operation is inside the gate.
pub struct Closed<'a>(WriteGuard<'a, u64, { rank::GATE }>);

impl OpGate {
    /// Creates a gate without a journal. `epoch` is the version of the mounted checkpoint.
    pub fn new(epoch: u64) -> Self {
        Self { checkpoint: RwLock::new(epoch), epochs: Epochs::default() }
    }
    /// Enters the gate. Waits while it is closed.
    pub fn enter(&self) -> Op<'_> {
        let guard = self.checkpoint.read();
        let (journal_epoch, joined) = self.epochs.join();
        Op { epoch: *guard, journal_epoch, joined, _guard: Some(guard), _gate: PhantomData }
    }
    /// Closes the gate. Waits for the operations inside.
    pub fn close(&self) -> Closed<'_> {
        Closed(self.checkpoint.write())
    }
    /// Closes the gate if no operation is inside. Operations that try to enter meanwhile do not wait.
    pub fn try_close(&self) -> Option<Closed<'_>> {
        self.checkpoint.try_write().map(Closed)
    }
    /// Times taken to join the journal's epoch.
    #[cfg(feature = "lab")]
    pub fn join_times(&self) -> crate::stat::Recorded {
        self.epochs.joins.recorded()
    }
    /// The open journal epoch; 0 without a journal.
    pub fn journal_epoch(&self) -> u64 {
        self.epochs.open()
    }
    /// Opens a journal epoch while the gate is closed or the volume is not in use yet. 0 stops journaling and is
    /// allowed at any time.
    pub fn set_journal_epoch(&self, epoch: u64) {
        self.epochs.set(epoch);
    }
    /// Ends the open journal epoch and waits for its operations. Call it from one thread at a time, once the previous
    /// epoch is written: both share the counters.
    pub fn end_journal_epoch(&self) -> u64 {
        self.epochs.end()
    }
}

impl Op<'_> {
    /// The checkpoint version this operation builds on, constant while inside.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    /// The journal epoch of the operation; 0 if nothing is recorded.
    pub fn journal_epoch(&self) -> u64 {
        self.journal_epoch
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
    /// An operation of the caller that closed the gate. Changes by a checkpoint are in no epoch.
    pub fn op(&self) -> Op<'_> {
        Op { epoch: *self.0, journal_epoch: 0, joined: None, _guard: None, _gate: PhantomData }
    }
    /// Later operations build on checkpoint version `epoch`.
    pub fn advance(&mut self, epoch: u64) {
        *self.0 = epoch;
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn trying_to_close_blocks_no_operation() {
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
            // An operation changes both halves in turn.
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
