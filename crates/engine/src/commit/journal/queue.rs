//! Group commit: one caller commits for all waiting callers. A caller returns as soon as its epoch is durable
//! and does not wait for later commits.
use crate::sync::{Condvar, Mutex};

/// The queue of callers that need a commit.
#[derive(Debug, Default)]
pub struct CommitQueue {
    state: Mutex<QueueState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    taken: bool,
    /// Epochs up to this one are durable; 0 if unknown.
    newest: u64,
}

/// The right to commit.
#[derive(Debug)]
pub struct CommitPermit<'a>(&'a CommitQueue);

impl CommitQueue {
    /// Waits until the caller may commit, or until epochs up to `wanted` are durable, which returns `None`. Epoch 0
    /// never is.
    pub fn wait(&self, wanted: u64) -> Option<CommitPermit<'_>> {
        let mut state = self.state.lock();
        loop {
            if (1..=state.newest).contains(&wanted) {
                return None;
            }
            if !std::mem::replace(&mut state.taken, true) {
                return Some(CommitPermit(self));
            }
            self.ended.wait(&mut state);
        }
    }
}

impl CommitPermit<'_> {
    /// Epochs up to this one are durable; 0 means that durability is unknown.
    pub fn reached(&self, epoch: u64) {
        self.0.state.lock().newest = epoch;
    }
}

impl Drop for CommitPermit<'_> {
    fn drop(&mut self) {
        self.0.state.lock().taken = false;
        self.0.ended.notify_all();
    }
}

#[cfg(all(test, not(feature = "loom"), not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    /// Callers queue during a commit; one more commit serves them all.
    #[test]
    fn one_commit_serves_all_waiting_callers() {
        let (queue, commits) = (CommitQueue::default(), AtomicU32::new(0));
        let first = queue.wait(1).unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    if let Some(round) = queue.wait(2) {
                        commits.fetch_add(1, Ordering::Relaxed);
                        round.reached(2);
                    }
                });
            }
            first.reached(1);
            drop(first);
        });
        assert_eq!(commits.into_inner(), 1);
    }

    #[test]
    fn no_caller_is_served_without_certainty() {
        let queue = CommitQueue::default();
        queue.wait(1).unwrap().reached(5);
        assert!(queue.wait(5).is_none() && queue.wait(0).is_some());
        queue.wait(6).unwrap().reached(0);
        assert!(queue.wait(5).is_some());
    }
}

/// Explores all schedules of two callers: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use loom::thread;

    /// The open epoch, the durable epoch, and whether a commit runs.
    #[derive(Default)]
    struct Rig {
        queue: CommitQueue,
        open: AtomicU64,
        durable: AtomicU64,
        commits: AtomicBool,
    }

    fn commit(rig: &Rig) {
        let wanted = rig.open.load(Ordering::SeqCst);
        if let Some(round) = rig.queue.wait(wanted) {
            assert!(!rig.commits.swap(true, Ordering::SeqCst), "two commits at once");
            let ended = rig.open.fetch_add(1, Ordering::SeqCst);
            rig.durable.store(ended, Ordering::SeqCst);
            round.reached(ended);
            rig.commits.store(false, Ordering::SeqCst);
        }
        assert!(rig.durable.load(Ordering::SeqCst) >= wanted, "returned before the epoch was durable");
    }

    #[test]
    fn one_commit_at_a_time_and_all_callers_are_served() {
        loom::model(|| {
            let rig = Arc::new(Rig { open: AtomicU64::new(1), ..Rig::default() });
            let other = {
                let rig = rig.clone();
                thread::spawn(move || commit(&rig))
            };
            commit(&rig);
            other.join().unwrap();
        });
    }
}
