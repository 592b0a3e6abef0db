//! Mounting, serving, and leaving in order: signals and umount(8) both end with a clean checkpoint.
use crate::block::{self, Backing, MountType};
use crate::init::Acl;
use crate::mount::{self, Request};
use crate::server::Server;
use crate::session::{Choice, Session, Transport};
use segno_engine::Volume;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// How to mount.
#[derive(Clone, Debug, Default)]
pub struct FuseOptions {
    /// Source shown in /proc/mounts: the image.
    pub source: String,
    /// What a mount of type `fuseblk` has as its source instead.
    pub backing: Backing,
    pub read_only: bool,
    /// Let other users in; they need `user_allow_other` in /etc/fuse.conf unless root mounts.
    pub allow_other: bool,
    pub acl: bool,
    /// Flags and options for the kernel, as given (`dev`, `suid`, `noexec` …).
    pub extra: Vec<String>,
    /// A helper unmounts when this process ends.
    pub auto_unmount: bool,
    /// Server threads; 0 lets the session choose.
    pub threads: usize,
    pub transport: Choice,
    /// Let the ioctl of crash tests shut the volume down.
    pub shutdown: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Started {
    pub transport: Transport,
    pub mount_type: MountType,
}

/// How long requests in flight may take after a signal before the server leaves without their callers.
const GRACE: Duration = Duration::from_secs(2);

/// What ends a mount.
enum End {
    Served(io::Result<()>),
    Signal,
}

/// Mounts, calls `ready` once the mount answers, and serves until it is unmounted or a signal asks to leave. Where
/// umount(2) waits for the server, `close` is called before it returns. Otherwise the volume is still mounted in the engine's
/// sense when this returns; close it and leave the process.
pub fn serve(
    volume: Arc<Volume>,
    dir: &Path,
    opts: &FuseOptions,
    close: impl Fn() + Send + Sync + 'static,
    ready: impl FnOnce(&Started),
) -> io::Result<()> {
    let (ended, end) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let server = Server::new(volume).on_destroy(close).take_shutdown(opts.shutdown);
    let (session, mount_type) = start(server, dir, opts)?;
    let started = Started { transport: session.transport.clone(), mount_type };
    let signalled = ended.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            // The receiver is gone only when the mount has ended anyway.
            let _ = signalled.send(End::Signal);
        }
    })?;
    thread::Builder::new().name("session".into()).spawn(move || {
        let _ = ended.send(End::Served(session.wait()));
    })?;
    ready(&started);
    let leave = || leave(dir, &started.mount_type);
    match end.recv() {
        Ok(End::Served(Err(e))) => {
            leave();
            Err(e)
        }
        Ok(End::Served(Ok(()))) => Ok(()),
        Ok(End::Signal) => {
            leave();
            match end.recv_timeout(GRACE) {
                Ok(End::Served(result)) => result,
                Ok(End::Signal) | Err(_) => Ok(()),
            }
        }
        Err(_) => Err(io::Error::other("the session thread ended without a word")),
    }
}

/// Mounts and takes up the connection; no mount is left on failure.
fn start(server: Server, dir: &Path, opts: &FuseOptions) -> io::Result<(Session, MountType)> {
    let request =
        Request { dir, source: &opts.source, options: options(opts), auto_unmount: opts.auto_unmount };
    let (mounted, mount_type) = block::connect(&request, &opts.backing)?;
    let acl = Acl { umask: opts.acl, kernel: opts.acl && kernel_checks(opts) };
    let session = Session::start(mounted, Arc::new(server), opts.transport, opts.threads, acl);
    let session = session.inspect_err(|_| leave(dir, &mount_type))?;
    mount::read_ahead(dir, &mount_type);
    Ok((session, mount_type))
}

fn leave(dir: &Path, mount_type: &MountType) {
    if let Err(e) = mount::detach(dir, mount_type) {
        eprintln!("segno: {} stays mounted: {e}", dir.display());
    }
}

/// Whether the kernel is to check permissions. It asks for the attributes of a directory again after each change of it,
/// which is for nothing where nobody but root may enter, who may do everything.
fn kernel_checks(opts: &FuseOptions) -> bool {
    opts.allow_other || !rustix::process::geteuid().is_root()
}

pub(crate) fn options(opts: &FuseOptions) -> Vec<String> {
    // As a plain option the subtype reaches the kernel also without fusermount3. The kernel does not report most reads,
    // so access times cannot be kept.
    let mut list = vec!["subtype=segno".to_owned(), "noatime".to_owned()];
    if kernel_checks(opts) {
        list.push("default_permissions".into());
    }
    if opts.read_only {
        list.push("ro".into());
    }
    if opts.allow_other {
        list.push("allow_other".into());
    }
    list.extend(opts.extra.iter().cloned());
    list
}
