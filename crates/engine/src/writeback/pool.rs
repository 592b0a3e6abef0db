//! Threads that serve contexts: as many as have work, at most a fixed number, none while there is nothing to do.
//!
//! A context is served by one thread at a time. It stands in the line, is being served, or is neither; whoever gives it
//! work while it is being served has it stand in line again.
use crate::sync::{Condvar, Mutex};
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// See the module. A leaf lock.
#[derive(Debug)]
pub struct Pool {
    state: Mutex<State>,
    changed: Condvar,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    line: VecDeque<u32>,
    served: BTreeSet<u32>,
    again: BTreeSet<u32>,
    threads: usize,
    idle: usize,
    stop: bool,
}

impl Pool {
    pub fn new(most: usize) -> Self {
        Self { state: Mutex::new(State::default()), changed: Condvar::default(), most }
    }

    /// A context has work. True if the caller must start a thread that calls [`Pool::next`], or tell that it could not.
    pub fn kick(&self, id: u32) -> bool {
        let mut s = self.state.lock();
        if s.stop || s.line.contains(&id) {
            return false;
        }
        if s.served.contains(&id) {
            s.again.insert(id);
            return false;
        }
        s.line.push_back(id);
        if s.idle >= s.line.len() {
            self.changed.notify_all();
            return false;
        }
        let start = s.threads < self.most;
        if start {
            s.threads += 1;
        }
        start
    }

    /// The context to serve next. `None` ends the thread: nothing came for so long, or all threads are to end.
    pub fn next(&self, linger: Duration) -> Option<u32> {
        let begun = Instant::now();
        let mut s = self.state.lock();
        loop {
            if s.stop {
                break;
            }
            if let Some(id) = s.line.pop_front() {
                s.served.insert(id);
                return Some(id);
            }
            // Decided under the lock: whoever kicks from here on sees that the thread is gone.
            let Some(left) = linger.checked_sub(begun.elapsed()).filter(|d| !d.is_zero()) else { break };
            s.idle += 1;
            self.changed.wait_for(&mut s, left);
            s.idle -= 1;
        }
        s.threads -= 1;
        None
    }

    /// The context was served; it stands in line again if there is more.
    pub fn done(&self, id: u32, more: bool) {
        let mut s = self.state.lock();
        s.served.remove(&id);
        if s.again.remove(&id) || more {
            s.line.push_back(id);
        }
    }

    /// A thread that was asked for did not start.
    pub fn not_started(&self) {
        self.state.lock().threads -= 1;
    }

    pub fn threads(&self) -> usize {
        self.state.lock().threads
    }

    /// All threads end after what they are at.
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_served_by_one_thread_at_a_time() {
        let pool = Pool::new(4);
        assert!(pool.kick(7), "a thread is needed");
        assert!(!pool.kick(7), "it stands in line already");
        assert_eq!(pool.next(Duration::ZERO), Some(7));
        assert!(!pool.kick(7), "it is being served");
        assert_eq!(pool.next(Duration::ZERO), None, "nobody else gets it meanwhile");
        assert!(!pool.kick(8) || pool.threads() <= 4);
        pool.done(7, false);
        assert_eq!(pool.next(Duration::ZERO), Some(8));
        assert_eq!(pool.next(Duration::ZERO), Some(7), "it was given work while it was served");
    }

    #[test]
    fn no_more_threads_than_allowed() {
        let pool = Pool::new(3);
        let started = (0..64).filter(|&id| pool.kick(id)).count();
        assert_eq!((started, pool.threads()), (3, 3));
        for id in 0..64 {
            assert_eq!(
                pool.next(Duration::ZERO),
                Some(id),
                "contexts without a thread of their own wait their turn"
            );
            pool.done(id, false);
        }
    }

    #[test]
    fn stopping_ends_threads() {
        let pool = Pool::new(1);
        assert!(pool.kick(1));
        pool.stop();
        assert_eq!(pool.next(Duration::from_secs(60)), None);
        assert!(!pool.kick(2));
        assert_eq!(pool.threads(), 0);
    }
}
