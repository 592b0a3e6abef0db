//! Turns of fsync on one file: the next one serves every caller that waits for it.
use crate::sync::{Condvar, Mutex};

/// Orders the fsyncs of an inode.
#[derive(Debug, Default)]
pub struct SyncTurns {
    /// A leaf lock, not held during a turn.
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: bool,
    /// Number of the newest turn that began.
    begun: u64,
    /// Number of the newest turn that succeeded.
    succeeded: u64,
}

/// A turn, until dropped.
#[derive(Debug)]
pub struct SyncTurn<'a> {
    turns: &'a SyncTurns,
    succeeded: bool,
}

impl SyncTurns {
    /// Waits for the turn of the caller. `None` if a turn that began after the call succeeded: it covers all
    /// changes made before the call.
    pub fn wait(&self) -> Option<SyncTurn<'_>> {
        let mut state = self.state.lock();
        let before = state.begun;
        while state.running && state.succeeded <= before {
            self.ended.wait(&mut state);
        }
        state.begin(before).then(|| SyncTurn { turns: self, succeeded: false })
    }
}

impl State {
    /// Begins a turn for a caller that arrived when turn `before` was the newest, unless a later turn has
    /// served it.
    fn begin(&mut self, before: u64) -> bool {
        if self.succeeded > before {
            return false;
        }
        self.running = true;
        self.begun += 1;
        true
    }
}

impl SyncTurn<'_> {
    /// Ends a turn that succeeded.
    pub fn succeed(mut self) {
        self.succeeded = true;
    }
}

impl Drop for SyncTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        state.running = false;
        if self.succeeded {
            state.succeeded = state.begun;
        }
        self.turns.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_serves_those_that_waited_for_it_and_no_others() {
        let turns = SyncTurns::default();
        let first = turns.wait().unwrap();
        let two_more_come = turns.state.lock().begun;
        first.succeed();
        assert!(turns.state.lock().begin(two_more_come), "the first turn may have missed their changes");
        SyncTurn { turns: &turns, succeeded: false }.succeed();
        assert!(!turns.state.lock().begin(two_more_come));
        turns.wait().expect("a later caller has later changes").succeed();
    }

    #[test]
    fn a_turn_that_failed_serves_no_one() {
        let turns = SyncTurns::default();
        let first = turns.wait().unwrap();
        let two_more_come = turns.state.lock().begun;
        drop(first);
        assert!(turns.state.lock().begin(two_more_come));
        drop(SyncTurn { turns: &turns, succeeded: false });
        assert!(turns.state.lock().begin(two_more_come));
    }
}
