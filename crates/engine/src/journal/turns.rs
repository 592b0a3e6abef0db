//! Whose turn it is to commit. One caller commits for all who wait; who is served goes on at once, and does not stand in
//! line behind commits that others need.
use crate::sync::{Condvar, Mutex};

/// See the module.
#[derive(Debug, Default)]
pub struct Turns {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: bool,
    /// Everything of epochs up to this one is durable; 0 if that is not certain.
    newest: u64,
}

/// The right to commit; others wait.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    /// Waits until it is the caller's turn, or everything up to an epoch is durable, which gives nothing. Epoch 0 is none.
    pub fn wait(&self, wanted: u64) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        loop {
            if (1..=state.newest).contains(&wanted) {
                return None;
            }
            if !std::mem::replace(&mut state.taken, true) {
                return Some(Turn(self));
            }
            self.ended.wait(&mut state);
        }
    }
}

impl Turn<'_> {
    /// Everything of epochs up to this one is durable, or, if 0, nothing is certain any more.
    pub fn reached(&self, epoch: u64) {
        self.0.state.lock().newest = epoch;
    }
}

impl Drop for Turn<'_> {
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

    /// While one commits, all others come to wait; one more commit serves them all.
    #[test]
    fn who_is_served_does_not_take_a_turn() {
        let (turns, commits) = (Turns::default(), AtomicU32::new(0));
        let first = turns.wait(1).unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    if let Some(turn) = turns.wait(2) {
                        commits.fetch_add(1, Ordering::Relaxed);
                        turn.reached(2);
                    }
                });
            }
            first.reached(1);
            drop(first);
        });
        assert_eq!(commits.into_inner(), 1);
    }

    #[test]
    fn nobody_is_served_when_nothing_is_certain() {
        let turns = Turns::default();
        turns.wait(1).unwrap().reached(5);
        assert!(turns.wait(5).is_none() && turns.wait(0).is_some());
        turns.wait(6).unwrap().reached(0);
        assert!(turns.wait(5).is_some());
    }
}

/// Every schedule of two callers: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use loom::thread;

    /// The open epoch, the durable ones, and whether somebody commits.
    #[derive(Default)]
    struct Rig {
        turns: Turns,
        open: AtomicU64,
        durable: AtomicU64,
        commits: AtomicBool,
    }

    fn commit(rig: &Rig) {
        let wanted = rig.open.load(Ordering::SeqCst);
        if let Some(turn) = rig.turns.wait(wanted) {
            assert!(!rig.commits.swap(true, Ordering::SeqCst), "two commit at once");
            let ended = rig.open.fetch_add(1, Ordering::SeqCst);
            rig.durable.store(ended, Ordering::SeqCst);
            turn.reached(ended);
            rig.commits.store(false, Ordering::SeqCst);
        }
        assert!(rig.durable.load(Ordering::SeqCst) >= wanted, "returned before it was durable");
    }

    #[test]
    fn one_commits_at_a_time_and_everybody_is_served() {
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
