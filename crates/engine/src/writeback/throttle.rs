//! Throttling: a writer ahead of the device waits here without locks, and does not write back itself.
use super::Context;
use super::Writeback;
use crate::error::Result;
use crate::files::Inode;
use crate::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest wait before the limits are checked again.
const PAUSE: Duration = Duration::from_millis(100);
/// After this time without progress the writer flushes itself, and so gets the error.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Fractions of the cache: the limit of dirty pages, and the threshold of background writeback.
const HARD_LIMIT_DIVISOR: u64 = 2;
const BACKGROUND_DIVISOR: u64 = 4;

/// Wakes throttled writers when pages have been written.
#[derive(Debug, Default)]
pub struct Waiters {
    lock: Mutex<()>,
    changed: Condvar,
    waiting: AtomicU64,
    written: AtomicU64,
    pub pauses: AtomicU64,
    pub ns: AtomicU64,
}

impl Waiters {
    /// Records that `pages` were written, and wakes writers.
    pub fn notify(&self, pages: u64) {
        self.written.fetch_add(pages, Ordering::Relaxed);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            let _order = self.lock.lock();
            self.changed.notify_all();
        }
    }
    fn wait(&self) {
        let begun = Instant::now();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.changed.wait_for(&mut self.lock.lock(), PAUSE);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.pauses.fetch_add(1, Ordering::Relaxed);
        self.ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

/// A context's part of the limit: proportional to its rate, but at least a quarter of an equal part.
fn share(limit: u64, rate: u64, rates: u64, contexts: u64) -> u64 {
    let equal = limit / contexts.max(1);
    if rates == 0 {
        return equal;
    }
    let fair = u128::from(limit) * u128::from(rate) / u128::from(rates);
    (fair as u64).max(equal / 4)
}

impl Writeback {
    /// Upper bound on dirty pages of files.
    pub(crate) fn dirty_limit(&self) -> u64 {
        self.base.cache_blocks() / HARD_LIMIT_DIVISOR
    }
    /// Dirty pages above which background writeback starts.
    pub(crate) fn background_limit(&self) -> u64 {
        self.base.cache_blocks() / BACKGROUND_DIVISOR
    }

    /// Dirty pages of one context that start its writeback. Above the global threshold at least one context reaches
    /// it.
    pub(crate) fn background_share(&self, contexts: usize) -> u64 {
        self.background_limit() / contexts.max(1) as u64
    }

    /// Starts background writeback above its threshold.
    pub(crate) fn hint_writeback(&self) {
        if self.base.mem.dirty_data.get() > self.background_limit() {
            self.wake_full();
        }
    }

    /// Wakes contexts that reached their part. The others collect more pages, which may be the beginnings of large
    /// files.
    fn wake_full(&self) {
        let contexts = self.contexts.contexts();
        self.wake(&contexts, self.background_share(contexts.len()));
    }

    pub(crate) fn wake_all(&self) {
        self.wake(&self.contexts.contexts(), 1);
    }

    fn wake(&self, contexts: &[Arc<Context>], at_least: u64) {
        contexts.iter().filter(|c| c.dirty() >= at_least).for_each(|c| self.threads.wake(c.id()));
    }

    /// Keeps dirty data within the limit. The caller holds no lock.
    pub(crate) fn bound_dirty(&self) -> Result<()> {
        let over = || self.base.mem.dirty_data.get() > self.dirty_limit();
        match over() {
            false => Ok(()),
            true if self.threads.are_used() => self.wait_while(over),
            true => self.flush_all_data(),
        }
    }

    /// Throttles writers to a context over its share, so that the others keep room. The caller holds no lock.
    pub(crate) fn bound_share(&self, inode: &Arc<Inode>) -> Result<()> {
        let free = (self.background_limit() + self.dirty_limit()) / 2;
        if self.base.mem.dirty_data.get() <= free || !self.threads.are_used() {
            return Ok(());
        }
        let Some(account) = inode.pages.lock().account().cloned() else { return Ok(()) };
        self.wait_while(|| {
            self.base.mem.dirty_data.get() > free && account.pages.get() > self.share_of(account.context)
        })
    }

    fn share_of(&self, context: u32) -> u64 {
        let all = self.contexts.contexts();
        let rates = all.iter().map(|c| c.rate()).sum();
        let rate = all.iter().find(|c| c.id() == context).map_or(0, |c| c.rate());
        share(self.dirty_limit(), rate, rates, all.len() as u64)
    }

    fn wait_while(&self, over: impl Fn() -> bool) -> Result<()> {
        let written = || self.waiters.written.load(Ordering::Relaxed);
        let mut progress = (written(), Instant::now());
        while over() {
            self.base.health.check_running()?;
            self.wake_full();
            self.waiters.wait();
            if written() != progress.0 {
                progress = (written(), Instant::now());
            } else if progress.1.elapsed() > STALL_TIMEOUT {
                return self.flush_all_data();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_follow_rates_with_a_minimum() {
        assert_eq!(share(1000, 0, 0, 4), 250, "no rates known yet");
        assert_eq!(share(1000, 30, 40, 2), 750);
        assert_eq!(share(1000, 0, 40, 4), 62, "a stuck one");
        assert_eq!(share(1000, 7, 7, 1), 1000);
    }
}
