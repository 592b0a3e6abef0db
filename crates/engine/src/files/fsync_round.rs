//! Rounds of fsync on one file: the next one serves every caller that waits for it.
use crate::sync::{Condvar, Mutex};

/// Orders the fsyncs of an inode.
#[derive(Debug, Default)]
pub struct FsyncRounds {
    /// A leaf lock, not held during a round.
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: bool,
    /// Number of the newest round that began.
    begun: u64,
    /// Number of the newest round that succeeded.
    succeeded: u64,
}

/// A round, until dropped.
#[derive(Debug)]
pub struct FsyncRound<'a> {
    rounds: &'a FsyncRounds,
    succeeded: bool,
}

impl FsyncRounds {
    /// Waits for the round of the caller. `None` if a round that began after the call succeeded: it covers all
    /// changes made before the call.
    pub fn wait(&self) -> Option<FsyncRound<'_>> {
        let mut state = self.state.lock();
        let before = state.begun;
        while state.running && state.succeeded <= before {
            self.ended.wait(&mut state);
        }
        state.begin(before).then(|| FsyncRound { rounds: self, succeeded: false })
    }
}

impl State {
    /// Begins a round for a caller that arrived when round `before` was the newest, unless a later round has
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

impl FsyncRound<'_> {
    /// Ends a round that succeeded.
    pub fn succeed(mut self) {
        self.succeeded = true;
    }
}

impl Drop for FsyncRound<'_> {
    fn drop(&mut self) {
        let mut state = self.rounds.state.lock();
        state.running = false;
        if self.succeeded {
            state.succeeded = state.begun;
        }
        self.rounds.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_serves_those_that_waited_for_it_and_no_others() {
        let rounds = FsyncRounds::default();
        let first = rounds.wait().unwrap();
        let two_more_come = rounds.state.lock().begun;
        first.succeed();
        assert!(rounds.state.lock().begin(two_more_come), "the first round may have missed their changes");
        FsyncRound { rounds: &rounds, succeeded: false }.succeed();
        assert!(!rounds.state.lock().begin(two_more_come));
        rounds.wait().expect("a later caller has later changes").succeed();
    }

    #[test]
    fn a_turn_that_failed_serves_no_one() {
        let rounds = FsyncRounds::default();
        let first = rounds.wait().unwrap();
        let two_more_come = rounds.state.lock().begun;
        drop(first);
        assert!(rounds.state.lock().begin(two_more_come));
        drop(FsyncRound { rounds: &rounds, succeeded: false });
        assert!(rounds.state.lock().begin(two_more_come));
    }
}
