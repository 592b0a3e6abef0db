//! A connection from the first exchange to its end.
use crate::init::{self, Acl, MAX_WRITE, Offer};
use crate::mount::Mounted;
use crate::server::Server;
use crate::transport::classic::{self, clone_device};
use crate::transport::uring::Seat;
use crate::transport::way::Way;
use crate::wire::InitFlags;
use rustix::fd::OwnedFd;
use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Which transport is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// io_uring where the kernel has it.
    #[default]
    Auto,
    Classic,
    IoUring,
}

/// Which transport a session uses, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    IoUring { queues: usize, threads: usize },
    Classic { threads: usize, why: String },
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IoUring { queues, threads } => {
                write!(f, "io_uring, {queues} queues, {threads} threads each: the kernel offers it")
            }
            Self::Classic { threads, why } => write!(f, "classic /dev/fuse, {threads} threads: {why}"),
        }
    }
}

const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";
const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";
/// Threads of all queues together, and of one: as many requests can wait for the disk at the same time.
const SEATS: usize = 64;
const SEATS_OF_QUEUE: (usize, usize) = (2, 8);
/// As many requests over /dev/fuse can wait for the disk at the same time, one less to serve others.
const CLASSIC_THREADS: usize = 8;

/// A wake-up of another CPU for each forgotten inode costs more than what is to be done.
const FORGET_PAUSE: Duration = Duration::from_millis(1);

/// A seat's thread, waiting for the connection to use.
struct Waiting {
    start: mpsc::Sender<Arc<OwnedFd>>,
    registered: mpsc::Receiver<io::Result<()>>,
}

/// A running session.
#[derive(Debug)]
pub struct Session {
    pub transport: Transport,
    ended: mpsc::Receiver<io::Result<()>>,
    /// Open as long as the helper is to unmount when this process ends.
    _auto_unmount: Option<OwnedFd>,
}

impl Session {
    /// Takes up the connection: requests are served when this returns.
    pub fn start(
        mounted: Mounted,
        server: Arc<Server>,
        choice: Choice,
        threads: usize,
        acl: Acl,
    ) -> io::Result<Self> {
        let Mounted { dev, auto_unmount } = mounted;
        let offer = init::receive(&dev)?;
        let dev = Arc::new(dev);
        let (end, ended) = mpsc::channel();
        let seats = match choice {
            Choice::Classic => Err("asked for".to_owned()),
            _ => prepare(&offer, &server, threads, &end),
        };
        if choice == Choice::IoUring
            && let Err(why) = &seats
        {
            return Err(io::Error::other(format!("transport=io_uring: {why}")));
        }
        let reply = offer.accept(acl, seats.is_ok());
        // Before the first request that may need it.
        server.notifier.connect(dev.clone())?;
        rustix::io::write(&dev, &reply)?;
        let transport = match seats {
            Ok((queues, seats)) => {
                let threads = seats.len() / queues.max(1);
                seats.iter().try_for_each(|seat| seat.start(&dev))?;
                // Forgotten inodes and interrupts still come this way, and have time.
                spawn_classic(0, dev, &server, &end, FORGET_PAUSE)?;
                Transport::IoUring { queues, threads }
            }
            Err(why) => {
                let threads = if threads == 0 { cpus().max(CLASSIC_THREADS) } else { threads };
                for i in 1..threads {
                    spawn_classic(i, Arc::new(clone_device(&dev)?), &server, &end, Duration::ZERO)?;
                }
                spawn_classic(0, dev, &server, &end, Duration::ZERO)?;
                Transport::Classic { threads, why }
            }
        };
        Ok(Self { transport, ended, _auto_unmount: auto_unmount })
    }

    /// Waits until the mount ends, or a thread fails: then what still waits in its queue is served by nobody, and the
    /// process should leave.
    pub fn wait(&self) -> io::Result<()> {
        self.ended.recv().unwrap_or(Ok(()))
    }
}

impl Waiting {
    fn start(&self, dev: &Arc<OwnedFd>) -> io::Result<()> {
        let gone = |_| io::Error::other("a queue thread ended early");
        self.start.send(dev.clone()).map_err(|_| io::Error::other("a queue thread ended early"))?;
        self.registered.recv().map_err(gone)?
    }
}

type End = mpsc::Sender<io::Result<()>>;

fn spawn_classic(
    index: usize,
    dev: Arc<OwnedFd>,
    server: &Arc<Server>,
    end: &End,
    pause: Duration,
) -> io::Result<()> {
    let (server, end) = (server.clone(), end.clone());
    thread::Builder::new().name(format!("fuse-{index}")).spawn(move || {
        // The receiver is gone only when the session has ended anyway.
        let _ = end.send(guarded(|| classic::serve(&dev, &server, MAX_WRITE as usize, pause)));
    })?;
    Ok(())
}

/// A thread that dies of a bug ends the session: others cannot answer what it had in hand.
fn guarded(serve: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let bug = |_| Err(io::Error::other("a server thread ended in a bug"));
    catch_unwind(AssertUnwindSafe(serve)).unwrap_or_else(bug)
}

/// Makes the rings of all queues before the kernel is told, so that a refusal costs nothing; or says why not.
fn prepare(
    offer: &Offer,
    server: &Arc<Server>,
    threads: usize,
    end: &End,
) -> Result<(usize, Vec<Waiting>), String> {
    if !offer.flags.contains(InitFlags::OVER_IO_URING) {
        return Err(match fs::read_to_string(PARAMETER) {
            Ok(_) => format!("io_uring is off; root turns it on before mounting: echo Y > {PARAMETER}"),
            Err(_) => "this kernel has no FUSE over io_uring (Linux 6.14 brought it)".to_owned(),
        });
    }
    let queues = cpus();
    let each = if threads == 0 {
        (SEATS / queues).clamp(SEATS_OF_QUEUE.0, SEATS_OF_QUEUE.1)
    } else {
        threads.div_ceil(queues)
    };
    let way = Arc::new(Way::new());
    let mut seats = Vec::new();
    for queue in 0..queues {
        for _ in 0..each {
            seats.push(
                spawn_seat(queue as u16, server, end, way.clone())
                    .map_err(|e| format!("io_uring cannot be set up: {e}"))?,
            );
        }
    }
    Ok((queues, seats))
}

fn spawn_seat(queue: u16, server: &Arc<Server>, end: &End, way: Arc<Way>) -> io::Result<Waiting> {
    let (server, end) = (server.clone(), end.clone());
    let (made, is_made) = mpsc::channel();
    let (start, started) = mpsc::channel::<Arc<OwnedFd>>();
    let (register, registered) = mpsc::channel();
    thread::Builder::new().name(format!("fuse-cpu{queue}")).spawn(move || {
        let mut seat = match Seat::new(queue, MAX_WRITE as usize, way) {
            Ok(seat) => seat,
            Err(e) => return drop(made.send(Err(e))),
        };
        drop(made.send(Ok(())));
        // Nothing comes if another thread failed.
        let Ok(dev) = started.recv() else { return };
        let done = seat.register(&dev);
        drop(dev);
        let failed = done.is_err();
        drop(register.send(done));
        if !failed {
            drop(end.send(guarded(|| seat.serve(&server))));
        }
    })?;
    is_made.recv().map_err(|_| io::Error::other("a queue thread ended early"))??;
    Ok(Waiting { start, registered })
}

/// CPUs that there may be: the kernel has a queue for each.
fn cpus() -> usize {
    let text = fs::read_to_string(POSSIBLE_CPUS).unwrap_or_default();
    count_cpus(&text).unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

/// Ranges as in "0-3,8".
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
