//! The broker of a mount: a process that keeps the rights of the user, while the server drops them before it reads the volume.
//! It mounts and unmounts, sets the limits of the page cache, and reads the credentials of callers (`callers`).
//!
//! The server cannot use it to regain rights. Directory, source and options are arguments of the process, fixed before the server is
//! confined. Calls have a fixed length and carry no path: the broker mounts once, unmounts and tunes this mount alone, and
//! reports capabilities of a thread and membership in one group. It has no descriptor of the storage, and none of the connection
//! after it has sent that one.
mod message;
mod process;
mod spec;

use crate::block::{self, Backing, MountType};
use crate::callers::Callers;
use crate::mount::{Mounted, receive};
use crate::options::FuseOptions;
use crate::page_cache::PageCache;
use message::{ANSWER_MAX, Answer, Call};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use segno_device::ExclusiveOpen;
use spec::Spec;
use std::env::args_os;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The program calls itself by this name, which ps(1) shows.
const NAME: &str = "segno-broker";

/// Set in a program that runs as the broker when it is called by that name.
static IS_PREPARED: AtomicBool = AtomicBool::new(false);

/// The first call of `main` in each program that mounts: the program executes itself again to have a broker. In that process this call does not
/// return.
pub fn run_broker_if_called() {
    IS_PREPARED.store(true, Ordering::Release);
    let args: Vec<OsString> = args_os().collect();
    let Some((_, spec)) = args.split_first().filter(|(name, _)| *name == NAME) else { return };
    let done = process::run(spec).inspect_err(|e| eprintln!("segno: the broker of a mount: {e}"));
    exit(done.is_err().into())
}

/// The broker process, on the side of its server. The sockets close when the server ends in any way.
#[derive(Debug)]
pub struct Broker {
    control: OwnedFd,
    callers: Option<Callers>,
    process: Child,
    exclusive: Option<Arc<ExclusiveOpen>>,
}

impl Broker {
    /// Starts the process: this program once more.
    ///
    /// # Errors
    /// `Unsupported`: the program would begin from its start, as it does not call [`run_broker_if_called`].
    pub fn start(dir: &Path, opts: &FuseOptions) -> io::Result<Self> {
        if !IS_PREPARED.load(Ordering::Acquire) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the first call of `main` must be `run_broker_if_called`, for the process that mounts and unmounts",
            ));
        }
        let spec = Spec::of(dir, opts);
        let exclusive =
            matches!(spec.backing, Backing::Device(_)).then(|| opts.exclusive_open.clone()).flatten();
        let (control, theirs) = pair()?;
        let (callers, answers) = pair()?;
        let mut command = Command::new("/proc/self/exe");
        // It must keep neither a terminal nor a directory busy.
        command.arg0(NAME).args(spec.to_args()).current_dir("/");
        command.stdin(theirs).stdout(answers).stderr(Stdio::null());
        let process = command.spawn().map_err(|e| {
            io::Error::new(e.kind(), format!("the process that mounts and unmounts cannot be started: {e}"))
        })?;
        Ok(Self { control, callers: Some(Callers::new(callers)), process, exclusive })
    }

    /// Reads credentials of callers; `None` if they were taken already.
    pub(crate) fn callers(&mut self) -> Option<Callers> {
        self.callers.take()
    }

    /// Mounts. The kernel's first request is then pending on the connection.
    pub(crate) fn connect(&self) -> io::Result<(Mounted, MountType)> {
        let done = block::hand_over(self.exclusive.as_deref(), || {
            let (answer, dev) = self.call(Call::Mount)?;
            let (Answer::Mounted { id, mount_type }, Some(dev)) = (answer, dev) else {
                return Err(unexpected());
            };
            Ok((Mounted { dev, id }, mount_type))
        });
        // The mount has been made if only the exclusive open is missing.
        done.inspect_err(|_| drop(self.call(Call::Detach { sync: false })))
    }

    /// Sets the limits of the page cache.
    pub(crate) fn tune(&self, page_cache: PageCache, volume_bytes: u64) {
        let call = Call::Tune { writeback: page_cache == PageCache::Writeback, volume_bytes };
        if let Err(e) = self.call(call) {
            eprintln!("segno: the defaults of the page cache stay in force: {e}");
        }
    }

    /// Unmounts even while the mount is in use. Operations on files that are still open fail from then on. With `sync` the kernel sends
    /// all dirty pages first.
    pub(crate) fn detach(&self, sync: bool) {
        if let Err(e) = self.call(Call::Detach { sync }) {
            eprintln!("segno: {e}");
        }
    }

    /// Unmounts unless the mount is in use (`ResourceBusy`).
    pub(crate) fn unmount(&self) -> io::Result<()> {
        self.call(Call::Unmount).map(|_| ())
    }

    /// The mount has ended: its number may be that of another one on kernels before 6.8.
    pub(crate) fn end(mut self) {
        // If the process is gone, nothing is unmounted either.
        let _sent = send(&self.control, &Call::Ended.to_bytes(), SendFlags::NOSIGNAL);
        drop(self.control);
        // Fails only if somebody else has waited for it.
        let _ended = self.process.wait();
    }

    fn call(&self, call: Call) -> io::Result<(Answer, Option<OwnedFd>)> {
        let gone =
            |e: io::Error| io::Error::new(e.kind(), format!("the process that mounts and unmounts: {e}"));
        send(&self.control, &call.to_bytes(), SendFlags::NOSIGNAL).map_err(|e| gone(e.into()))?;
        let mut bytes = [0; ANSWER_MAX];
        let (n, dev) = receive(&self.control, &mut bytes).map_err(gone)?;
        if n == 0 {
            return Err(gone(io::Error::other("it has ended")));
        }
        let answer = Answer::parse(bytes.get(..n).unwrap_or_default()).ok_or_else(unexpected)?;
        match answer {
            Answer::Failed { kind, why } => Err(io::Error::new(kind, why)),
            done => Ok((done, dev)),
        }
    }
}

fn unexpected() -> io::Error {
    io::Error::other("the process that mounts and unmounts gave an answer of another version")
}

/// Two sockets that keep the bounds of messages.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}
