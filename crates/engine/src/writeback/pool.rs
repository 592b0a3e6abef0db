//! Pool of threads that serve contexts: one per context with work up to a fixed number, none when idle.
//!
//! A context is served by one thread at a time. It is queued, being served, or neither; a wake while it is served
//! queues it again.
use crate::sync::{Condvar, Mutex};
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// The thread pool. Its lock is a leaf.
#[derive(Debug)]
pub struct Pool {
    state: Mutex<PoolState>,
    changed: Condvar,
    most: usize,
}

#[derive(Debug, Default)]
struct PoolState {
    line: VecDeque<u32>,
    served: BTreeSet<u32>,
    again: BTreeSet<u32>,
    threads: usize,
    idle: usize,
    stop: bool,
}

impl Pool {
    pub fn new(most: usize) -> Self {
        Self { state: Mutex::new(PoolState::default()), changed: Condvar::default(), most }
    }

    /// Queues a context. If true, the caller must start a thread that runs [`Pool::next`], or call
    /// [`Pool::not_started`].
    pub fn wake(&self, id: u32) -> bool {
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

    /// The next context to serve. `None` ends the thread: it was idle for `linger`, or the pool was stopped.
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
            // Decided under the lock, so a later wakeup no longer counts this thread.
            let Some(left) = linger.checked_sub(begun.elapsed()).filter(|d| !d.is_zero()) else { break };
            s.idle += 1;
            self.changed.wait_for(&mut s, left);
            s.idle -= 1;
        }
        s.threads -= 1;
        None
    }

    /// Ends the service of a context; `more` queues it again. Returns false if it was not being served.
    #[must_use]
    pub fn done(&self, id: u32, more: bool) -> bool {
        let mut s = self.state.lock();
        let served = s.served.remove(&id);
        if s.again.remove(&id) || more {
            s.line.push_back(id);
        }
        served
    }

    /// A requested thread could not be started.
    pub fn not_started(&self) {
        self.state.lock().threads -= 1;
    }

    pub fn threads(&self) -> usize {
        self.state.lock().threads
    }

    /// Ends all threads once they finish their current context.
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
        assert!(pool.wake(7), "a thread must be started");
        assert!(!pool.wake(7), "already queued");
        assert_eq!(pool.next(Duration::ZERO), Some(7));
        assert!(!pool.wake(7), "it is being served");
        assert_eq!(pool.next(Duration::ZERO), None, "no other thread gets it meanwhile");
        assert!(!pool.wake(8) || pool.threads() <= 4);
        _ = pool.done(7, false);
        assert_eq!(pool.next(Duration::ZERO), Some(8));
        assert_eq!(pool.next(Duration::ZERO), Some(7), "woken while it was served");
    }

    #[test]
    fn no_more_threads_than_allowed() {
        let pool = Pool::new(3);
        let started = (0..64).filter(|&id| pool.wake(id)).count();
        assert_eq!((started, pool.threads()), (3, 3));
        for id in 0..64 {
            assert_eq!(
                pool.next(Duration::ZERO),
                Some(id),
                "contexts beyond the number of threads stay queued"
            );
            _ = pool.done(id, false);
        }
    }

    #[test]
    fn stopping_ends_threads() {
        let pool = Pool::new(1);
        assert!(pool.wake(1));
        pool.stop();
        assert_eq!(pool.next(Duration::from_secs(60)), None);
        assert!(!pool.wake(2));
        assert_eq!(pool.threads(), 0);
    }
}
