//! A writeback context: its files, its data logs and its write rate.
use crate::files::{DirtyAccount, Inode};
use crate::lock::{Mutex, rank};
use crate::memory::Counter;
use crate::space::{SharedStream, Space, Stream};
use segno_format::Ino;
use segno_format::sit::LogType;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Load of a file, in dirty pages.
const PAGES_PER_FILE: u64 = 64;

/// One context. Its list of files changes under the table's lock; see [`super::Writeback`].
#[derive(Debug)]
pub struct Context {
    /// The context's number, unique within a mount, and the count of its dirty pages.
    pub account: Arc<DirtyAccount>,
    /// Writes to the six logs instead of streams.
    core: bool,
    files: Mutex<BTreeMap<Ino, (Instant, Arc<Inode>)>, { rank::LEAF }>,
    /// Length of `files`, readable without its lock.
    count: AtomicU64,
    /// The last file served; the next round starts after it.
    last: AtomicU32,
    streams: [SharedStream; 3],
    /// Moving average of pages written per second.
    rate: AtomicU64,
}

impl Context {
    pub fn new(id: u32, core: bool) -> Self {
        Self {
            account: Arc::new(DirtyAccount { context: id, pages: Counter::default() }),
            core,
            files: Mutex::default(),
            count: AtomicU64::new(0),
            last: AtomicU32::new(0),
            streams: Default::default(),
            rate: AtomicU64::new(0),
        }
    }

    pub fn id(&self) -> u32 {
        self.account.context
    }
    pub fn dirty(&self) -> u64 {
        self.account.pages.get()
    }
    pub fn add(&self, inode: &Arc<Inode>, since: Instant) {
        let mut files = self.files.lock();
        files.insert(inode.ino, (since, inode.clone()));
        self.count.store(files.len() as u64, Ordering::Relaxed);
    }
    /// Removes a file from the list. Returns the time since which it was dirty.
    pub fn remove(&self, inode: &Arc<Inode>) -> Option<Instant> {
        let mut files = self.files.lock();
        if !files.get(&inode.ino).is_some_and(|(_, i)| Arc::ptr_eq(i, inode)) {
            return None;
        }
        let since = files.remove(&inode.ino).map(|(since, _)| since);
        self.count.store(files.len() as u64, Ordering::Relaxed);
        since
    }
    pub fn files(&self) -> Vec<Arc<Inode>> {
        self.files.lock().values().map(|(_, i)| i.clone()).collect()
    }
    pub fn any(&self) -> Option<Arc<Inode>> {
        self.files.lock().first_key_value().map(|(_, (_, i))| i.clone())
    }
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
    pub fn oldest(&self) -> Option<Duration> {
        self.files.lock().values().map(|(since, _)| since.elapsed()).max()
    }

    /// Up to `max` next files, round-robin.
    pub fn next_files(&self, max: usize) -> Vec<Arc<Inode>> {
        let files = self.files.lock();
        let last = Ino(self.last.load(Ordering::Relaxed));
        let behind = files.range((Bound::Excluded(last), Bound::Unbounded));
        behind.chain(files.range(..=last)).take(max).map(|(_, (_, i))| i.clone()).collect()
    }
    pub fn served(&self, last: Ino) {
        self.last.store(last.0, Ordering::Relaxed);
    }

    pub fn load(&self) -> u64 {
        self.dirty() + self.count() * PAGES_PER_FILE
    }

    /// The shared stream for a log type; `None` means the log of that type.
    pub fn stream(&self, kind: LogType, space: &Space) -> Option<Arc<Stream>> {
        if self.core {
            return None;
        }
        Some(self.streams.get(kind.idx())?.get(kind, space))
    }
    pub fn end_streams(&self, space: &Space) {
        self.streams.iter().filter_map(SharedStream::made).for_each(|s| space.end_stream(&s));
    }

    /// Updates the average rate with `pages` written in `took`.
    pub fn note_rate(&self, pages: u64, took: Duration) {
        let now = pages.saturating_mul(1_000_000) / (took.as_micros() as u64).max(1);
        let old = self.rate.load(Ordering::Relaxed);
        let new = if old == 0 { now } else { old - old / 8 + now / 8 };
        self.rate.store(new, Ordering::Relaxed);
    }
    pub fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }
}
