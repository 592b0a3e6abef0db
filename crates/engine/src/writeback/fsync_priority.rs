//! Priority of fsyncs over writeback of aged data.
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Without an fsync for this long, none is expected.
const RECENT: Duration = Duration::from_secs(1);

/// Counts fsyncs in progress and makes aged writeback yield to them.
#[derive(Debug)]
pub struct FsyncPriority {
    inside: AtomicU32,
    begun: Instant,
    /// End of the last fsync, in milliseconds since creation; 0 if none.
    ended_at: AtomicU64,
    /// Number of threads that yield. A leaf lock.
    waiting: Mutex<u32>,
    ended: Condvar,
}

/// An fsync in progress.
#[derive(Debug)]
pub struct FsyncGuard<'a>(&'a FsyncPriority);

impl Default for FsyncPriority {
    fn default() -> Self {
        Self {
            inside: AtomicU32::new(0),
            begun: Instant::now(),
            ended_at: AtomicU64::new(0),
            waiting: Mutex::default(),
            ended: Condvar::new(),
        }
    }
}

impl FsyncPriority {
    /// Other writeback yields until the result is dropped.
    pub fn take(&self) -> FsyncGuard<'_> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        FsyncGuard(self)
    }

    fn millis(&self) -> u64 {
        (self.begun.elapsed().as_millis() as u64).max(1)
    }

    /// Whether an fsync is in progress, or ended so recently that more are expected.
    pub fn is_wanted(&self) -> bool {
        let ended_at = self.ended_at.load(Ordering::Relaxed);
        self.inside.load(Ordering::SeqCst) > 0
            || (ended_at > 0 && self.millis().saturating_sub(ended_at) < RECENT.as_millis() as u64)
    }

    /// Waits until no fsync is in progress, or for the given time. The caller holds no lock.
    pub fn wait_for_fsyncs(&self, timeout: Duration) {
        let is_free = || self.inside.load(Ordering::SeqCst) == 0;
        if is_free() {
            return;
        }
        let begun = Instant::now();
        let mut waiting = self.waiting.lock();
        *waiting += 1;
        while !is_free() {
            let Some(rest) = timeout.checked_sub(begun.elapsed()).filter(|d| !d.is_zero()) else { break };
            self.ended.wait_for(&mut waiting, rest);
        }
        *waiting -= 1;
    }
}

impl Drop for FsyncGuard<'_> {
    fn drop(&mut self) {
        self.0.ended_at.store(self.0.millis(), Ordering::Relaxed);
        if self.0.inside.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Locks even without a waiter: a thread about to wait checks again with the lock held.
            let waiting = self.0.waiting.lock();
            if *waiting > 0 {
                self.0.ended.notify_all();
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
    fn aged_writeback_resumes_after_the_last_fsync() {
        let fsyncs = FsyncPriority::default();
        fsyncs.wait_for_fsyncs(FOREVER);
        let (first, second) = (fsyncs.take(), fsyncs.take());
        assert!(!FsyncPriority::default().is_wanted() && fsyncs.is_wanted());
        thread::scope(|s| {
            let waits = s.spawn(|| fsyncs.wait_for_fsyncs(FOREVER));
            while *fsyncs.waiting.lock() == 0 {
                thread::yield_now();
            }
            drop(first);
            assert_eq!(*fsyncs.waiting.lock(), 1, "one fsync is still in progress");
            drop(second);
            waits.join().unwrap();
        });
        assert_eq!(*fsyncs.waiting.lock(), 0);
        assert!(fsyncs.is_wanted(), "more are expected");
    }

    #[test]
    fn the_wait_is_bounded() {
        let fsyncs = FsyncPriority::default();
        let _ahead = fsyncs.take();
        fsyncs.wait_for_fsyncs(Duration::from_millis(1));
    }
}
