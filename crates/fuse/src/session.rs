//! A session: the threads that serve one connection.
use crate::file_system::{Connection, FileSystem};
use crate::init::{self, KernelFeatures, MAX_WRITE, Permissions, Wanted};
use crate::mount::Mounted;
use crate::options::{Choice, FuseOptions};
use crate::page_cache::PageCache;
use crate::transport::classic::{self, clone_device};
use crate::transport::scheduling::Scheduling;
use crate::transport::uring::Worker;
use crate::wire::InitFlags;
use derive_more::Display;
use rustix::fd::OwnedFd;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Transport of a session and the reason for it.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
pub enum Transport {
    /// Requests come through io_uring.
    #[display("io_uring, {queues} queues, {threads} threads each: the kernel offers it")]
    IoUring {
        /// Number of queues, one per CPU.
        queues: usize,
        /// Number of threads per queue.
        threads: usize,
    },
    /// Requests are read from /dev/fuse.
    #[display("classic /dev/fuse, {threads} threads: {why}")]
    Classic {
        /// Number of server threads.
        threads: usize,
        /// Why io_uring is not used.
        why: String,
    },
}

const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";
const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";
/// Number of threads in all queues: as many requests can wait for the disk at the same time.
const WORKERS: usize = 64;
/// Minimum and maximum number of threads per queue.
const WORKERS_PER_QUEUE: (usize, usize) = (2, 8);
/// Threads on /dev/fuse: all but one can wait for the disk while the last serves other requests.
const CLASSIC_THREADS: usize = 8;
/// Time that the last requests of a connection that has ended have.
const GRACE: Duration = Duration::from_secs(2);
/// FORGET requests are served in batches: waking another CPU for each costs more than the request.
const FORGET_PAUSE: Duration = Duration::from_millis(1);

/// The connection and file system that a worker thread serves.
struct Served {
    dev: Arc<OwnedFd>,
    fs: Arc<dyn FileSystem>,
    end: End,
}

/// A worker thread that waits for the connection.
#[derive(Debug)]
struct PendingWorker {
    start: mpsc::Sender<Served>,
    registered: mpsc::Receiver<io::Result<()>>,
}

/// Queues of io_uring with their threads and rings, made before the volume is read: a confined server makes
/// no further ring while it reads untrusted data.
#[derive(Debug)]
pub struct Queues(Result<(usize, Vec<PendingWorker>), String>);

/// A running session.
#[derive(Debug)]
pub(crate) struct Session {
    pub transport: Transport,
    pub page_cache: PageCache,
    ended: mpsc::Receiver<io::Result<()>>,
}

impl Session {
    /// Starts the threads. Requests are served when this returns.
    pub(crate) fn start(
        mounted: Mounted,
        fs: Arc<dyn FileSystem>,
        opts: &FuseOptions,
        permissions: Permissions,
        queues: Queues,
    ) -> io::Result<Self> {
        let choice = opts.transport;
        let Mounted { dev, id } = mounted;
        let offer = init::receive(&dev)?;
        let dev = Arc::new(dev);
        let (end, ended) = mpsc::channel();
        let workers = queues.offered(&offer);
        if choice == Choice::IoUring
            && let Err(why) = &workers
        {
            return Err(io::Error::other(format!("transport=io_uring: {why}")));
        }
        let page_cache = PageCache::agreed(opts.writeback_cache, offer.flags);
        let writeback_cache = page_cache == PageCache::Writeback;
        let threads = workers
            .as_ref()
            .map_or_else(|_| shared_threads(opts.threads), |(queues, w)| w.len() / (*queues).max(1));
        let async_dio = init::kernel_invalidates_after_async_write();
        let reply =
            offer.accept(Wanted { permissions, uring: workers.is_ok(), writeback_cache, threads, async_dio });
        // Connected before the first request that may send a notification.
        fs.connect(&Connection { dev: dev.clone(), mount: id, page_cache })?;
        rustix::io::write(&dev, &reply)?;
        let transport = match workers {
            Ok((queues, workers)) => {
                let served = || Served { dev: dev.clone(), fs: fs.clone(), end: end.clone() };
                workers.iter().try_for_each(|worker| worker.start(served()))?;
                // FORGET and INTERRUPT still arrive on /dev/fuse and are not urgent.
                let forgets = fs.clone();
                let serve = move || classic::serve_batches(&dev, &*forgets, MAX_WRITE as usize, FORGET_PAUSE);
                spawn_classic(0, &end, serve)?;
                Transport::IoUring { queues, threads }
            }
            Err(why) => {
                let scheduling = Arc::new(Scheduling::new(!opts.no_sched_idle));
                for i in 0..threads {
                    let own = if i == 0 { dev.clone() } else { Arc::new(clone_device(&dev)?) };
                    let (fs, scheduling) = (fs.clone(), scheduling.clone());
                    let serve = move || classic::serve(&own, &*fs, MAX_WRITE as usize, &scheduling);
                    spawn_classic(i, &end, serve)?;
                }
                Transport::Classic { threads, why }
            }
        };
        Ok(Self { transport, page_cache, ended })
    }

    /// Waits until the mount ends and no thread refers to the server, or a thread fails. After a failure the requests of its queue are not
    /// served any more, so the process should exit.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.ended.recv().unwrap_or(Ok(()))?;
        // Each thread sends its end, and then drops its sender.
        while self.ended.recv_timeout(GRACE).is_ok() {}
        Ok(())
    }
}

impl PendingWorker {
    fn start(&self, served: Served) -> io::Result<()> {
        let gone = |_| io::Error::other("a queue thread ended early");
        self.start.send(served).map_err(|_| io::Error::other("a queue thread ended early"))?;
        self.registered.recv().map_err(gone)?
    }
}

type End = mpsc::Sender<io::Result<()>>;

fn spawn_classic(
    index: usize,
    end: &End,
    serve: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    let end = end.clone();
    thread::Builder::new().name(format!("fuse-{index}")).spawn(move || {
        // Fails only if the session has ended already.
        let _ = end.send(guarded(serve));
    })?;
    Ok(())
}

/// Number of threads that serve one queue of all requests; 0 is automatic.
pub(crate) fn shared_threads(wanted: usize) -> usize {
    if wanted == 0 { cpus().max(CLASSIC_THREADS) } else { wanted }
}

/// Turns a panic into an error. It ends the session, as other threads cannot reply to the request that was being served.
fn guarded(serve: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let panicked = |_| Err(io::Error::other("a server thread panicked"));
    catch_unwind(AssertUnwindSafe(serve)).unwrap_or_else(panicked)
}

impl Queues {
    /// Makes the queues if these options and the kernel permit io_uring.
    pub fn prepare(opts: &FuseOptions) -> Self {
        let is_on = || match fs::read_to_string(PARAMETER) {
            Ok(text) if text.trim() == "Y" => Ok(()),
            Ok(_) => {
                Err(format!("io_uring is off; root can enable it before mounting: echo Y > {PARAMETER}"))
            }
            Err(_) => Err("this kernel does not support FUSE over io_uring (needs Linux 6.14)".to_owned()),
        };
        Self(match opts.transport {
            Choice::Classic => Err("requested".to_owned()),
            Choice::Auto | Choice::IoUring => {
                is_on().and_then(|()| workers(opts).map_err(|e| format!("io_uring cannot be set up: {e}")))
            }
        })
    }

    /// The number of queues, and the threads, if the kernel offers io_uring for a connection; else the reason
    /// why it is not used.
    fn offered(self, offer: &KernelFeatures) -> Result<(usize, Vec<PendingWorker>), String> {
        let is_offered = offer.flags.contains(InitFlags::OVER_IO_URING);
        let refused = || "the kernel does not offer io_uring for this mount".to_owned();
        self.0.and_then(|workers| is_offered.then_some(workers).ok_or_else(refused))
    }
}

fn workers(opts: &FuseOptions) -> io::Result<(usize, Vec<PendingWorker>)> {
    let queues = cpus();
    let each = if opts.threads == 0 {
        (WORKERS / queues).clamp(WORKERS_PER_QUEUE.0, WORKERS_PER_QUEUE.1)
    } else {
        opts.threads.div_ceil(queues)
    };
    let scheduling = Arc::new(Scheduling::new(!opts.no_sched_idle));
    let all = (0..queues).flat_map(|queue| (0..each).map(move |_| queue as u16));
    Ok((queues, all.map(|queue| spawn_worker(queue, scheduling.clone())).collect::<io::Result<_>>()?))
}

fn spawn_worker(queue: u16, scheduling: Arc<Scheduling>) -> io::Result<PendingWorker> {
    let (made, is_made) = mpsc::channel();
    let (start, started) = mpsc::channel::<Served>();
    let (register, registered) = mpsc::channel();
    thread::Builder::new().name(format!("fuse-cpu{queue}")).spawn(move || {
        let mut worker = match Worker::new(queue, MAX_WRITE as usize, &scheduling) {
            Ok(worker) => worker,
            Err(e) => return drop(made.send(Err(e))),
        };
        drop(made.send(Ok(())));
        // The sender is dropped if the rings are not used. `end` is dropped after `fs`.
        let Ok(Served { dev, end, fs }) = started.recv() else { return };
        let registered = worker.register(&dev);
        drop(dev);
        let serves = matches!(registered, Ok(true));
        drop(register.send(registered.map(drop)));
        if serves {
            drop(end.send(guarded(|| worker.serve(&*fs))));
        }
    })?;
    is_made.recv().map_err(|_| io::Error::other("a queue thread ended early"))??;
    Ok(PendingWorker { start, registered })
}

/// Number of possible CPUs; the kernel has a queue for each.
fn cpus() -> usize {
    let text = fs::read_to_string(POSSIBLE_CPUS).unwrap_or_default();
    count_cpus(&text).unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

/// Counts the CPUs in a list of ranges such as "0-3,8".
fn count_cpus(text: &str) -> Option<usize> {
    text.trim().split(',').try_fold(0, |n: usize, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        n.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ranges() {
        assert_eq!(count_cpus("0-1\n"), Some(2));
        assert_eq!(count_cpus("0"), Some(1));
        assert_eq!(count_cpus("0-3,8-11,13"), Some(9));
        assert_eq!(count_cpus(""), None);
        assert_eq!(count_cpus("3-1"), None);
    }
}
