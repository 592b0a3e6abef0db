//! Whoever waits for an fsync goes before data that is written only because it is old.
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// After so long without an fsync none is expected.
const RECENT: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Precedence {
    inside: AtomicU32,
    begun: Instant,
    /// When the last one left, in milliseconds since then; 0 if there was none.
    left_at: AtomicU64,
    /// Those who give way. A leaf lock.
    waiting: Mutex<u32>,
    left: Condvar,
}

/// An fsync that is under way.
#[derive(Debug)]
pub(crate) struct Ahead<'a>(&'a Precedence);

impl Default for Precedence {
    fn default() -> Self {
        Self {
            inside: AtomicU32::new(0),
            begun: Instant::now(),
            left_at: AtomicU64::new(0),
            waiting: Mutex::default(),
            left: Condvar::new(),
        }
    }
}

impl Precedence {
    /// Until the result is dropped, others give way.
    pub fn take(&self) -> Ahead<'_> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        Ahead(self)
    }

    fn millis(&self) -> u64 {
        (self.begun.elapsed().as_millis() as u64).max(1)
    }

    /// Whether an fsync is under way, or was a moment ago, so that more are to be expected.
    pub fn is_wanted(&self) -> bool {
        let left_at = self.left_at.load(Ordering::Relaxed);
        self.inside.load(Ordering::SeqCst) > 0
            || (left_at > 0 && self.millis().saturating_sub(left_at) < RECENT.as_millis() as u64)
    }

    /// Returns when nobody is ahead, or after so long. Nothing may be held.
    pub fn give_way(&self, at_most: Duration) {
        let is_free = || self.inside.load(Ordering::SeqCst) == 0;
        if is_free() {
            return;
        }
        let begun = Instant::now();
        let mut waiting = self.waiting.lock();
        *waiting += 1;
        while !is_free() {
            let Some(rest) = at_most.checked_sub(begun.elapsed()).filter(|d| !d.is_zero()) else { break };
            self.left.wait_for(&mut waiting, rest);
        }
        *waiting -= 1;
    }
}

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        self.0.left_at.store(self.0.millis(), Ordering::Relaxed);
        if self.0.inside.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Taken without need if nobody waits; who is about to wait looks again with the lock held.
            let waiting = self.0.waiting.lock();
            if *waiting > 0 {
                self.0.left.notify_all();
            }
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use std::thread;

    const FOREVER: Duration = Duration::from_secs(3600);

    #[test]
    fn who_gives_way_goes_on_when_the_last_has_left() {
        let fsyncs = Precedence::default();
        fsyncs.give_way(FOREVER);
        let (first, second) = (fsyncs.take(), fsyncs.take());
        assert!(!Precedence::default().is_wanted() && fsyncs.is_wanted());
        thread::scope(|s| {
            let waits = s.spawn(|| fsyncs.give_way(FOREVER));
            while *fsyncs.waiting.lock() == 0 {
                thread::yield_now();
            }
            drop(first);
            assert_eq!(*fsyncs.waiting.lock(), 1, "one is still ahead");
            drop(second);
            waits.join().unwrap();
        });
        assert_eq!(*fsyncs.waiting.lock(), 0);
        assert!(fsyncs.is_wanted(), "there may be more");
    }

    #[test]
    fn nobody_waits_for_ever() {
        let fsyncs = Precedence::default();
        let _ahead = fsyncs.take();
        fsyncs.give_way(Duration::from_millis(1));
    }
}
