//! The threads that write back.
use super::pool::Pool;
use super::sequence::PROMOTE;
use crate::data::Reason;
use crate::error::Result;
use crate::inode::Inode;
use crate::sync::Mutex;
use crate::volume::Volume;
use segno_format::BLOCK_SIZE;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A thread without work ends after this.
const LINGER: Duration = Duration::from_secs(60);
/// Threads at most, whatever the machine has.
const MOST: usize = 132;
/// Batches of one file before it is another file's turn (64 MiB).
const QUANTUM: u32 = 16;
/// Files looked at for one turn.
const TURN: usize = 256;

/// Asked for once: the answer takes several files of the system.
pub fn processors() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

/// See the module.
#[derive(Debug)]
pub struct Threads {
    pool: Arc<Pool>,
    volume: OnceLock<Weak<Volume>>,
    starter: Mutex<Option<Starter>>,
    /// Who waits for everything that is dirty.
    hurried: AtomicUsize,
    /// One change of the number of contexts at a time.
    pub change: Mutex<()>,
    pub cpus: u64,
}

/// Starts threads when asked. They have policy and processors of who starts them, so callers do not.
#[derive(Debug)]
struct Starter {
    ask: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Starter {
    fn new(pool: Arc<Pool>, volume: Weak<Volume>) -> Option<Self> {
        let (ask, asked) = mpsc::channel();
        let work = move || start_each(&asked, &pool, &volume);
        let thread = thread::Builder::new().name("segno-starter".into()).spawn(work).ok()?;
        Some(Self { ask, thread })
    }
}

impl Threads {
    pub fn new() -> Self {
        let cpus = processors();
        Self {
            pool: Arc::new(Pool::new((2 * cpus + 4).min(MOST))),
            volume: OnceLock::new(),
            starter: Mutex::new(None),
            hurried: AtomicUsize::new(0),
            change: Mutex::new(()),
            cpus: cpus as u64,
        }
    }

    /// From now on contexts are served by threads.
    pub fn allow(&self, volume: &Arc<Volume>) {
        let volume = self.volume.get_or_init(|| Arc::downgrade(volume));
        let mut starter = self.starter.lock();
        if starter.is_none() {
            *starter = Starter::new(self.pool.clone(), volume.clone());
        }
    }
    pub fn are_used(&self) -> bool {
        self.volume.get().is_some()
    }
    pub fn count(&self) -> usize {
        self.pool.threads()
    }

    /// Until the result is dropped, contexts write back whatever they have.
    pub fn hurry(&self) -> Hurry<'_> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        Hurry(&self.hurried)
    }

    /// A context has work.
    pub fn kick(&self, id: u32) {
        if !self.are_used() || !self.pool.kick(id) {
            return;
        }
        if self.starter.lock().as_ref().is_none_or(|s| s.ask.send(()).is_err()) {
            self.pool.not_started();
        }
    }

    /// Ends all threads and waits for them.
    pub fn stop(&self) {
        self.pool.stop();
        let starter = self.starter.lock().take();
        if let Some(Starter { ask, thread }) = starter {
            drop(ask);
            // A panic there was reported there.
            let _ended = thread.join();
        }
    }
}

/// Starts a thread each time, and waits for all of them in the end.
fn start_each(asked: &mpsc::Receiver<()>, pool: &Arc<Pool>, volume: &Weak<Volume>) {
    let mut started: Vec<JoinHandle<()>> = Vec::new();
    for () in asked {
        let (pool_of_it, volume) = (pool.clone(), volume.clone());
        let work = move || run(&pool_of_it, &volume);
        match thread::Builder::new().name("segno-writeback".into()).spawn(work) {
            Ok(handle) => {
                started.retain(|h| !h.is_finished());
                started.push(handle);
            }
            // The threads that run serve it; without any, whoever waits for room tries himself.
            Err(_) => pool.not_started(),
        }
    }
    for handle in started {
        let _ended = handle.join();
    }
}

/// See [`Threads::hurry`].
pub struct Hurry<'a>(&'a AtomicUsize);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn run(pool: &Pool, volume: &Weak<Volume>) {
    while let Some(id) = pool.next(LINGER) {
        let more = match volume.upgrade() {
            Some(volume) => volume.serve(id),
            None => {
                pool.stop();
                false
            }
        };
        pool.done(id, more);
    }
}

/// Who writes back now. Files that may yet earn a stream of their own wait while there are others, or while there is little to
/// write: their beginnings would lie apart.
fn without_young(files: Vec<Arc<Inode>>, little: bool) -> Vec<Arc<Inode>> {
    let (young, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|f| f.is_young());
    if others.is_empty() && !little { young } else { others }
}

impl Inode {
    /// New, growing, and not yet worth a stream.
    fn is_young(&self) -> bool {
        let dirty = self.pages.lock().dirty() as u64;
        dirty < PROMOTE && self.sequence.is_new() && dirty * BLOCK_SIZE as u64 >= self.size()
    }
}

impl Volume {
    /// One turn of a context; whether it is to have another.
    pub(super) fn serve(&self, id: u32) -> bool {
        let Some(context) = self.wb.context(id).filter(|_| !self.is_stopped()) else { return false };
        let hurried = self.wb.threads.hurried.load(Ordering::Relaxed) > 0;
        let (dirty, limit) = (self.mem.dirty_data.get(), self.background_limit());
        let little = dirty <= limit || context.dirty.get() < self.background_part(self.wb.contexts().len());
        let files = match context.turn(TURN) {
            files if !hurried && dirty <= limit / 2 => self.large_among(files),
            files => without_young(files, little && !hurried),
        };
        // Nobody waits for it yet, so fsyncs go first.
        let early = !hurried && dirty <= limit && self.fsyncs.is_wanted();
        let why = if early { Reason::Aged } else { Reason::Wanted };
        let begun = Instant::now();
        let Ok((pages, last)) = self.flush_turn(&files, why) else {
            // Its pages are dirty again; the file's fsync tells of it, and the next kick tries again.
            return false;
        };
        if let Some(last) = last {
            context.served(last.ino);
            context.note_rate(pages, begun.elapsed());
        }
        last.is_some() && context.dirty.get() > 0
    }

    /// One large file, or as many small ones as fit in a batch. Returns the pages, and the last file.
    fn flush_turn<'f>(&self, files: &'f [Arc<Inode>], why: Reason) -> Result<(u64, Option<&'f Arc<Inode>>)> {
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
                // Several claims are taken in the order of the numbers.
                many.sort_unstable_by_key(|i| i.ino);
                self.flush_group(many, why)?;
                pages as u64
            }
        };
        Ok((written, last))
    }
}

#[cfg(test)]
mod tests {
    use crate::data::test_rig::{BLOCK, Rig};
    use crate::inode::Inode;
    use segno_format::Features;
    use std::sync::Arc;

    /// Most pages that a file of no stream can have (4 MiB less one).
    const YOUNG: u64 = 1023;

    fn write(rig: &Rig, file: &Inode, pages: u64) {
        rig.volume.write(file.ino, 0, &vec![7; (pages * BLOCK) as usize]).unwrap();
    }
    fn dirty(file: &Inode) -> u64 {
        file.pages.lock().dirty() as u64
    }

    #[test]
    fn a_file_that_grows_is_written_back_behind_others() {
        let rig = Rig::new(Features::default());
        let (young, large, old) = (rig.create(b"young"), rig.create(b"large"), rig.create(b"old"));
        let v = &rig.volume;
        write(&rig, &old, 8);
        v.sync().unwrap();
        write(&rig, &young, YOUNG);
        write(&rig, &large, 3000);
        write(&rig, &old, 1);
        let _all = v.wb.threads.hurry();
        let mut turns = 0;
        while dirty(&large) + dirty(&old) > 0 {
            assert_eq!(dirty(&young), YOUNG, "after {turns} turns");
            assert!(v.serve(0), "there is more");
            turns += 1;
        }
        assert!(!v.serve(0), "nothing is left");
        assert_eq!(dirty(&young), 0);
    }

    #[test]
    fn files_that_grow_wait_until_there_is_much() {
        let rig = Rig::new(Features::default());
        let v = &rig.volume;
        let limit = v.background_limit();
        let all = || v.wb.contexts()[0].dirty.get();
        let files = |n: u64| -> Vec<Arc<Inode>> {
            (0..n)
                .map(|i| rig.create(format!("{n}-{i}").as_bytes()))
                .inspect(|f| write(&rig, f, YOUNG))
                .collect()
        };
        let _some = files(limit / 2 / YOUNG + 1);
        let before = all();
        assert!(before > limit / 2 && !v.serve(0));
        assert_eq!(all(), before, "little is dirty, and all of it grows");
        let _more = files((limit - before) / YOUNG + 1);
        let before = all();
        assert!(before > limit && v.serve(0));
        assert!(all() < before);
    }
}
