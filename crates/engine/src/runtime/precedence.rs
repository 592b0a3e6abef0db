//! Whoever waits for an fsync goes before data that is written only because it is old.
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Precedence {
    inside: AtomicU32,
    /// Those who give way. A leaf lock.
    waiting: Mutex<u32>,
    left: Condvar,
}

/// An fsync that is under way.
#[derive(Debug)]
pub(crate) struct Ahead<'a>(&'a Precedence);

impl Precedence {
    /// Until the result is dropped, others give way.
    pub fn take(&self) -> Ahead<'_> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        Ahead(self)
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
    }

    #[test]
    fn nobody_waits_for_ever() {
        let fsyncs = Precedence::default();
        let _ahead = fsyncs.take();
        fsyncs.give_way(Duration::from_millis(1));
    }
}
