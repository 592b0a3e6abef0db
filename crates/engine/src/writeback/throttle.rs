//! Who writes faster than the device waits here, holding nothing, and never writes back itself.
use super::Context;
use crate::error::Result;
use crate::inode::Inode;
use crate::sync::{Condvar, Mutex};
use crate::volume::Volume;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest wait before the limits are looked at again.
const PAUSE: Duration = Duration::from_millis(100);
/// After so long without a page written back the writer tries itself, and so learns what is wrong.
const PATIENCE: Duration = Duration::from_secs(5);
/// Parts of the cache that may be dirty, of all and before it is written back.
const HARD_PART: u64 = 2;
const BACKGROUND_PART: u64 = 4;

/// Wakes writers when pages were written back.
#[derive(Debug, Default)]
pub struct Waiters {
    lock: Mutex<()>,
    changed: Condvar,
    waiting: AtomicU64,
    written: AtomicU64,
    pauses: AtomicU64,
    ns: AtomicU64,
}

impl Waiters {
    /// So many pages were written back.
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
    pub fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }
    pub fn ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }
}

/// Of the limit, what a context may have dirty: as fast as it is, but a quarter of an equal part at least.
fn share(limit: u64, rate: u64, rates: u64, contexts: u64) -> u64 {
    let equal = limit / contexts.max(1);
    if rates == 0 {
        return equal;
    }
    let fair = u128::from(limit) * u128::from(rate) / u128::from(rates);
    (fair as u64).max(equal / 4)
}

impl Volume {
    /// Dirty pages of files at most.
    pub(crate) fn dirty_limit(&self) -> u64 {
        self.cache_blocks() / HARD_PART
    }
    /// Dirty pages above which they are written back.
    pub(crate) fn background_limit(&self) -> u64 {
        self.cache_blocks() / BACKGROUND_PART
    }

    /// What each context may have dirty before it is written back: above the limit of all there is one with as much.
    pub(crate) fn background_part(&self, contexts: usize) -> u64 {
        self.background_limit() / contexts.max(1) as u64
    }

    /// Has contexts write back, once much is dirty.
    pub(crate) fn hint_writeback(&self) {
        if self.mem.dirty_data.get() > self.background_limit() {
            self.kick_full();
        }
    }

    /// Those that have their part dirty. The others wait for more: what they have may be the beginnings of large files.
    fn kick_full(&self) {
        let contexts = self.wb.contexts();
        self.kick(&contexts, self.background_part(contexts.len()));
    }

    pub(crate) fn kick_all(&self) {
        self.kick(&self.wb.contexts(), 1);
    }

    fn kick(&self, contexts: &[Arc<Context>], least: u64) {
        contexts.iter().filter(|c| c.dirty.get() >= least).for_each(|c| self.wb.threads.kick(c.id));
    }

    /// Keeps dirty data within the limit. Nothing may be held.
    pub(crate) fn bound_dirty(&self) -> Result<()> {
        let over = || self.mem.dirty_data.get() > self.dirty_limit();
        match over() {
            false => Ok(()),
            true if self.wb.threads.are_used() => self.wait_while(over),
            true => self.flush_all_data(),
        }
    }

    /// Holds back who fills a context that is behind, so that the others have room. Nothing may be held.
    pub(crate) fn bound_share(&self, inode: &Arc<Inode>) -> Result<()> {
        let free = (self.background_limit() + self.dirty_limit()) / 2;
        if self.mem.dirty_data.get() <= free || !self.wb.threads.are_used() {
            return Ok(());
        }
        let Some(home) = inode.pages.lock().home().cloned() else { return Ok(()) };
        self.wait_while(|| self.mem.dirty_data.get() > free && home.dirty.get() > self.share_of(&home))
    }

    fn share_of(&self, context: &Context) -> u64 {
        let all = self.wb.contexts();
        let rates = all.iter().map(|c| c.rate()).sum();
        share(self.dirty_limit(), context.rate(), rates, all.len() as u64)
    }

    fn wait_while(&self, over: impl Fn() -> bool) -> Result<()> {
        let written = || self.wb.waiters.written.load(Ordering::Relaxed);
        let mut progress = (written(), Instant::now());
        while over() {
            self.check_running()?;
            self.kick_full();
            self.wb.waiters.wait();
            if written() != progress.0 {
                progress = (written(), Instant::now());
            } else if progress.1.elapsed() > PATIENCE {
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
    fn shares_follow_rates_and_leave_nobody_without() {
        assert_eq!(share(1000, 0, 0, 4), 250, "nothing is known yet");
        assert_eq!(share(1000, 30, 40, 2), 750);
        assert_eq!(share(1000, 0, 40, 4), 62, "a stuck one");
        assert_eq!(share(1000, 7, 7, 1), 1000);
    }
}
