//! Operations as transactions. Every change of metadata is made by an operation, inside the gate, and recorded through
//! it. A checkpoint closes the gate.
//!
//! An operation takes its inode locks, begins, and ends before it releases the locks. All changes in between are in one
//! checkpoint or in none, and their records in one epoch of the journal if there is one.
//!
//! Ending an epoch blocks no operation: later ones enter the next epoch, and the caller waits for the earlier ones.
//! As inode locks are held across the operation, the epochs of an inode's changes are in order.
mod epochs;
mod fields;
mod inode_records;
mod recorder;

pub use fields::{store_attr, unpack_rdev};
pub use inode_records::{InodeRecords, MappedPage, Target};
pub use recorder::{Recorder, Taken, creates, sections};

use crate::lock::{Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard, rank};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use epochs::Epochs;
use segno_format::BlockAddr;
use std::cell::Cell;

/// The operations of a volume.
pub struct Transactions {
    /// Version of the checkpoint that operations build on.
    gate: RwLock<u64, { rank::GATE }>,
    /// Epochs of the journal.
    pub epochs: Epochs,
    /// Changes by operations since the last commit.
    pub records: Recorder,
    /// Stamp of node footers: version and crc of the checkpoint in force.
    stamp: AtomicU64,
    /// Held while blocks of the warm node log are placed and written, so that the chain has no holes. Holds the next
    /// address named by the last block of the chain, if fsyncs wrote any since the checkpoint.
    pub chain: Mutex<Option<BlockAddr>, { rank::CHAIN }>,
}

/// Guard of [`Transactions::chain`].
pub type ChainGuard<'a> = MutexGuard<'a, Option<BlockAddr>, { rank::CHAIN }>;

/// An operation: proof of being inside the gate, which functions that change metadata take as an argument, and the
/// recorder of its changes.
pub struct Op<'a> {
    transactions: &'a Transactions,
    epoch: u64,
    journal_epoch: u64,
    joined: Option<&'a AtomicU32>,
    /// Approximate size of its records in the journal, added to the epoch's at its end: threads contend for that counter.
    bytes: Cell<u64>,
    /// `None` for an operation of the caller that closed the gate.
    _guard: Option<ReadGuard<'a, u64, { rank::GATE }>>,
}

/// Proof that no operation is inside the gate.
pub struct Closed<'a> {
    transactions: &'a Transactions,
    version: WriteGuard<'a, u64, { rank::GATE }>,
}

impl Transactions {
    /// Starts without a journal, after a checkpoint of this version whose nodes have this stamp.
    pub fn new(version: u64, stamp: u64) -> Self {
        Self {
            gate: RwLock::new(version),
            epochs: Epochs::default(),
            records: Recorder::default(),
            stamp: AtomicU64::new(stamp),
            chain: Mutex::new(None),
        }
    }
    /// Begins an operation, which ends when it is dropped. Waits while the gate is closed.
    pub fn begin(&self) -> Op<'_> {
        let guard = self.gate.read();
        // Inside the gate, as a boundary ends the epoch with the gate closed: an operation before the
        // boundary never records into an epoch after it.
        let (journal_epoch, joined) = self.epochs.join();
        let bytes = Cell::new(0);
        Op { transactions: self, epoch: *guard, journal_epoch, joined, bytes, _guard: Some(guard) }
    }
    /// Closes the gate. Waits for the operations inside.
    pub fn close_gate(&self) -> Closed<'_> {
        Closed { transactions: self, version: self.gate.write() }
    }
    /// Closes the gate if no operation is inside. Operations that begin meanwhile do not wait.
    pub fn try_close_gate(&self) -> Option<Closed<'_>> {
        Some(Closed { transactions: self, version: self.gate.try_write()? })
    }
    pub fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }
    /// A checkpoint is in force: the next chain follows it. No fsync writes nodes between its boundary and this call.
    pub fn restart_chain(&self, stamp: u64) {
        *self.chain.lock() = None;
        self.stamp.store(stamp, Ordering::Release);
    }
}

impl Op<'_> {
    /// The checkpoint version this operation builds on, constant while inside.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    /// Whether a journal gets its records.
    pub fn is_recorded(&self) -> bool {
        self.journal_epoch != 0
    }
}

impl Drop for Op<'_> {
    fn drop(&mut self) {
        if let Some(active) = self.joined {
            // Before the operation leaves the epoch: a commit takes the counter once all have left.
            self.count_bytes();
            active.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Closed<'_> {
    /// An operation of the caller that closed the gate. Changes by a checkpoint are in no epoch.
    pub fn op(&self) -> Op<'_> {
        let (transactions, epoch) = (self.transactions, *self.version);
        Op { transactions, epoch, journal_epoch: 0, joined: None, bytes: Cell::new(0), _guard: None }
    }
    /// Later operations build on checkpoint version `epoch`.
    pub fn advance(&mut self, epoch: u64) {
        *self.version = epoch;
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn trying_to_close_blocks_no_operation() {
        let gate = Transactions::new(1, 0);
        let inside = gate.begin();
        std::thread::scope(|s| {
            s.spawn(|| assert!(gate.try_close_gate().is_none()));
        });
        std::thread::scope(|s| {
            s.spawn(|| drop(gate.begin()));
        });
        drop(inside);
        gate.try_close_gate().unwrap().advance(2);
        assert_eq!(gate.begin().epoch(), 2);
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
            let gate = Arc::new(Transactions::new(1, 0));
            // An operation changes both halves in turn.
            let halves = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
            let operate = |gate: Arc<Transactions>, halves: Arc<(AtomicU64, AtomicU64)>| {
                let op = gate.begin();
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
                let mut closed = gate.close_gate();
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
