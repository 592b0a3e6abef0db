//! One writeback context: the files it writes back, its logs, how fast it is.
use crate::inode::Inode;
use crate::lock::{Mutex, rank};
use crate::memory::Counter;
use crate::segment::{Segments, SharedStream, Stream};
use segno_format::sit::LogType;
use segno_format::{Ino, Nid};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A file with as many dirty pages loads a context as much as another file.
const PAGES_PER_FILE: u64 = 64;

/// See the module. What it knows of files changes under the table's lock; see [`super::Writeback`].
#[derive(Debug)]
pub struct Context {
    /// Never given twice in a mount.
    pub id: u32,
    /// Writes to the six logs.
    core: bool,
    /// Dirty pages of its files.
    pub dirty: Counter,
    files: Mutex<BTreeMap<Ino, (Instant, Arc<Inode>)>, { rank::LEAF }>,
    /// How many files it has.
    count: AtomicU64,
    /// The file it served last.
    last: AtomicU32,
    streams: [SharedStream; 3],
    /// Pages written back in a second, averaged.
    rate: AtomicU64,
}

impl Context {
    pub fn new(id: u32, core: bool) -> Self {
        Self {
            id,
            core,
            dirty: Counter::default(),
            files: Mutex::default(),
            count: AtomicU64::new(0),
            last: AtomicU32::new(0),
            streams: Default::default(),
            rate: AtomicU64::new(0),
        }
    }

    pub fn add(&self, inode: &Arc<Inode>, since: Instant) {
        let mut files = self.files.lock();
        files.insert(inode.ino, (since, inode.clone()));
        self.count.store(files.len() as u64, Ordering::Relaxed);
    }
    /// Takes a file off; since when it was dirty.
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

    /// The next files in turn, at most `max`; each gets its turn before one gets a second.
    pub fn turn(&self, max: usize) -> Vec<Arc<Inode>> {
        let files = self.files.lock();
        let last = Nid(self.last.load(Ordering::Relaxed));
        let behind = files.range((Bound::Excluded(last), Bound::Unbounded));
        behind.chain(files.range(..=last)).take(max).map(|(_, (_, i))| i.clone()).collect()
    }
    pub fn served(&self, last: Ino) {
        self.last.store(last.0, Ordering::Relaxed);
    }

    pub fn load(&self) -> u64 {
        self.dirty.get() + self.count() * PAGES_PER_FILE
    }

    /// Its shared stream for a type; `None` stands for the log of that type.
    pub fn stream(&self, kind: LogType, segs: &Segments) -> Option<Arc<Stream>> {
        if self.core {
            return None;
        }
        Some(self.streams.get(kind.idx())?.get(kind, segs))
    }
    pub fn end_streams(&self, segs: &Segments) {
        self.streams.iter().filter_map(SharedStream::made).for_each(|s| segs.end_stream(&s));
    }

    /// So many pages were written back in that time.
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
