//! Writeback threads.
use super::Writeback;
use super::pool::Pool;
use crate::error::Result;
use crate::files::{FlushReason, Inode, PROMOTE};
use crate::health::invariant;
use crate::sync::Mutex;
use segno_format::BLOCK_SIZE;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Idle time after which a thread ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Upper bound on threads, for any number of processors.
const MAX_THREADS: usize = 132;
/// Batches of one file before the next file is served (64 MiB).
const QUANTUM: u32 = 16;
/// Files considered per round.
const FILES_PER_ROUND: usize = 256;

/// Number of processors. Cached: the lookup reads several system files.
pub fn processors() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

/// The writeback threads and their control.
#[derive(Debug)]
pub struct Threads {
    pool: Arc<Pool>,
    writeback: OnceLock<Weak<Writeback>>,
    starter: Mutex<Option<Starter>>,
    /// Number of callers waiting for all dirty data.
    expedited: AtomicUsize,
    /// Serializes changes of the number of contexts.
    pub change: Mutex<()>,
    pub cpus: u64,
}

/// Starts threads on request. They inherit scheduling policy and CPU affinity of their creator, so operations do not
/// start them.
#[derive(Debug)]
struct Starter {
    request: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Starter {
    fn new(pool: Arc<Pool>, writeback: Weak<Writeback>) -> Option<Self> {
        let (request, requests) = mpsc::channel();
        let work = move || start_each(&requests, &pool, &writeback);
        let thread = thread::Builder::new().name("segno-starter".into()).spawn(work).ok()?;
        Some(Self { request, thread })
    }
}

impl Threads {
    pub fn new() -> Self {
        let cpus = processors();
        Self {
            pool: Arc::new(Pool::new((2 * cpus + 4).min(MAX_THREADS))),
            writeback: OnceLock::new(),
            starter: Mutex::new(None),
            expedited: AtomicUsize::new(0),
            change: Mutex::new(()),
            cpus: cpus as u64,
        }
    }

    /// Enables serving contexts by threads.
    pub fn allow(&self, writeback: &Arc<Writeback>) {
        let writeback = self.writeback.get_or_init(|| Arc::downgrade(writeback));
        let mut starter = self.starter.lock();
        if starter.is_none() {
            *starter = Starter::new(self.pool.clone(), writeback.clone());
        }
    }
    pub fn are_used(&self) -> bool {
        self.writeback.get().is_some()
    }
    pub fn count(&self) -> usize {
        self.pool.threads()
    }

    /// Until the result is dropped, contexts flush everything they have.
    pub fn expedite(&self) -> Expedited<'_> {
        self.expedited.fetch_add(1, Ordering::Relaxed);
        Expedited(&self.expedited)
    }

    /// Schedules a context with work.
    pub fn wake(&self, id: u32) {
        if !self.are_used() || !self.pool.wake(id) {
            return;
        }
        if self.starter.lock().as_ref().is_none_or(|s| s.request.send(()).is_err()) {
            self.pool.not_started();
        }
    }

    /// Stops all threads and joins them.
    pub fn stop(&self) {
        self.pool.stop();
        let starter = self.starter.lock().take();
        if let Some(Starter { request, thread }) = starter {
            drop(request);
            // A panic of the thread was already reported.
            let _ended = thread.join();
        }
    }
}

/// Starts a thread per request, and joins all of them at the end.
fn start_each(requests: &mpsc::Receiver<()>, pool: &Arc<Pool>, writeback: &Weak<Writeback>) {
    let mut started: Vec<JoinHandle<()>> = Vec::new();
    for () in requests {
        let (thread_pool, writeback) = (pool.clone(), writeback.clone());
        let work = move || run(&thread_pool, &writeback);
        match thread::Builder::new().name("segno-writeback".into()).spawn(work) {
            Ok(handle) => {
                started.retain(|h| !h.is_finished());
                started.push(handle);
            }
            // Running threads serve the context; without any, a throttled writer flushes after a timeout.
            Err(_) => pool.not_started(),
        }
    }
    for handle in started {
        // A panic of the thread was already reported.
        let _ended = handle.join();
    }
}

/// Guard of [`Threads::expedite`].
pub struct Expedited<'a>(&'a AtomicUsize);

impl Drop for Expedited<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn run(pool: &Pool, writeback: &Weak<Writeback>) {
    while let Some(id) = pool.next(IDLE_TIMEOUT) {
        let Some(writeback) = writeback.upgrade() else {
            pool.stop();
            let _last = pool.done(id, false);
            continue;
        };
        let more = writeback.serve(id);
        let served = pool.done(id, more);
        invariant!(writeback.base.health, served, "a context that was not served is marked as done", else {});
    }
}

/// Drops files that may still earn an exclusive stream while other files can be written, or while little is dirty:
/// their first pages would be separated from the rest.
fn without_young(files: Vec<Arc<Inode>>, little: bool) -> Vec<Arc<Inode>> {
    let (young, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|f| f.is_young());
    if others.is_empty() && !little { young } else { others }
}

impl Inode {
    /// Whether the file is new, still growing, and too small for a stream.
    fn is_young(&self) -> bool {
        let dirty = self.pages.lock().dirty() as u64;
        dirty < PROMOTE && self.sequence.is_new() && dirty * BLOCK_SIZE as u64 >= self.size()
    }
}

impl Writeback {
    /// Serves one round of a context. Returns whether it needs another.
    pub(crate) fn serve(&self, id: u32) -> bool {
        let Some(context) = self.contexts.context(id).filter(|_| !self.base.health.is_stopped()) else {
            return false;
        };
        let expedited = self.threads.expedited.load(Ordering::Relaxed) > 0;
        let (dirty, limit) = (self.base.mem.dirty_data.get(), self.background_limit());
        let little =
            dirty <= limit || context.dirty() < self.background_share(self.contexts.contexts().len());
        let files = match context.next_files(FILES_PER_ROUND) {
            files if !expedited && dirty <= limit / 2 => self.large_among(files),
            files => without_young(files, little && !expedited),
        };
        // No operation waits for this data yet, so fsyncs go first.
        let early = !expedited && dirty <= limit && self.fsyncs.is_wanted();
        let why = if early { FlushReason::Aged } else { FlushReason::Wanted };
        let begun = Instant::now();
        let Ok((pages, last)) = self.flush_round(&files, why) else {
            // The pages are dirty again. fsync of the file reports the error; the next wake retries.
            return false;
        };
        if let Some(last) = last {
            context.served(last.ino);
            context.note_rate(pages, begun.elapsed());
        }
        last.is_some() && context.dirty() > 0
    }

    /// Flushes one large file, or as many small ones as fit in a batch. Returns the number of pages and the last
    /// file.
    fn flush_round<'f>(
        &self,
        files: &'f [Arc<Inode>],
        why: FlushReason,
    ) -> Result<(u64, Option<&'f Arc<Inode>>)> {
        let mut group: Vec<Arc<Inode>> = Vec::new();
        let mut pages = 0;
        for file in files {
            let own = file.pages.lock().dirty();
            if !group.is_empty() && pages + own > why.most() {
                break;
            }
            group.push(file.clone());
            pages += own;
        }
        let last = files.get(group.len().wrapping_sub(1));
        let written = match group.as_mut_slice() {
            [] => 0,
            [one] => self.flush_quantum(one, QUANTUM, why)?,
            many => {
                // Flush locks are taken in ascending inode order.
                many.sort_unstable_by_key(|i| i.ino);
                self.flush_group(many, why)?;
                pages as u64
            }
        };
        Ok((written, last))
    }
}
