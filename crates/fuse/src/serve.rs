//! The life of a mount: mount, serve, shut down. Signals and umount(8) both end with a clean checkpoint.
use crate::bdi;
use crate::block::{self, Backing, MountType};
use crate::init::Acl;
use crate::mount::{self, Request};
use crate::ownership::Ownership;
use crate::page_cache::PageCache;
use crate::server::Server;
use crate::session::{Choice, Session, Transport};
use crate::watcher::Watcher;
use segno_engine::Volume;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Options of a mount.
#[derive(Clone, Debug, Default)]
pub struct FuseOptions {
    /// Source shown in /proc/mounts: the image.
    pub source: String,
    /// Source of a mount of type `fuseblk`.
    pub backing: Backing,
    /// Mount read-only.
    pub read_only: bool,
    /// Permit access by other users; needs `user_allow_other` in /etc/fuse.conf unless root mounts.
    pub allow_other: bool,
    /// Let the kernel check POSIX ACLs.
    pub acl: bool,
    /// Flags and options for the kernel, as given (`dev`, `suid`, `noexec` …).
    pub extra: Vec<String>,
    /// Makes the command of a process that unmounts when this one is killed. It calls [`crate::unmount_orphan`] with its
    /// first argument.
    pub auto_unmount: Option<fn() -> Command>,
    /// Number of server threads; 0 is automatic.
    pub threads: usize,
    /// How requests reach the server.
    pub transport: Choice,
    /// Deliver replies at the threads' normal scheduling policy.
    pub no_sched_idle: bool,
    /// Keep written data in the kernel's page cache until fsync, close or writeback.
    pub writeback_cache: bool,
    /// Permit the shutdown ioctl of crash tests.
    pub shutdown: bool,
    /// Owner and permissions to show.
    pub ownership: Ownership,
}

/// A mount that has started.
#[derive(Clone, Debug)]
pub struct Started {
    /// The transport in use.
    pub transport: Transport,
    /// The type of the mount.
    pub mount_type: MountType,
    /// Mode of the kernel's page cache.
    pub page_cache: PageCache,
}

/// Time that requests in flight have after a signal before the server exits without serving them.
const GRACE: Duration = Duration::from_secs(2);

/// Why a mount ends.
enum End {
    Served(io::Result<()>),
    Signal,
}

/// Mounts, calls `ready` once requests are served, and serves until an unmount or a signal. If umount(2) waits for the
/// server, `close` is called before it returns. Otherwise the volume is still open when this returns: the caller closes
/// it and exits.
pub fn serve(
    volume: Arc<Volume>,
    dir: &Path,
    opts: &FuseOptions,
    close: impl Fn() + Send + Sync + 'static,
    ready: impl FnOnce(&Started),
) -> io::Result<()> {
    let (ended, end) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let server = Server::new(volume).on_destroy(close).permit_shutdown(opts.shutdown).show(opts.ownership);
    // Kept to the end of the process, unless the mount ends first.
    let mut watcher = opts.auto_unmount.map(|command| Watcher::start(command(), dir)).transpose()?;
    let (session, mount_type) = start(server, dir, opts, watcher.as_mut())?;
    let page_cache = session.page_cache;
    let started = Started { transport: session.transport.clone(), mount_type, page_cache };
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
        Ok(End::Served(Ok(()))) => {
            watcher.into_iter().for_each(Watcher::dismiss);
            Ok(())
        }
        Ok(End::Signal) => {
            if page_cache == PageCache::Writeback {
                // Files that are open would lose what only the kernel has.
                mount::write_dirty_pages(dir);
            }
            leave();
            match end.recv_timeout(GRACE) {
                Ok(End::Served(result)) => result,
                Ok(End::Signal) | Err(_) => Ok(()),
            }
        }
        Err(_) => Err(io::Error::other("the session thread ended unexpectedly")),
    }
}

/// Mounts and starts the session; unmounts again on failure.
fn start(
    server: Server,
    dir: &Path,
    opts: &FuseOptions,
    watcher: Option<&mut Watcher>,
) -> io::Result<(Session, MountType)> {
    let request = Request { dir, source: &opts.source, options: options(opts) };
    let (mounted, mount_type) = block::connect(&request, &opts.backing)?;
    let watched = watcher.map_or(Ok(()), |watcher| watcher.watch(mounted.id));
    watched.inspect_err(|_| leave(dir, &mount_type))?;
    let acl = Acl { umask: opts.acl, kernel: opts.acl };
    let volume_bytes = server.volume.statfs().blocks.saturating_mul(4096);
    let session = Session::start(mounted, Arc::new(server), opts, acl);
    let session = session.inspect_err(|_| leave(dir, &mount_type))?;
    bdi::tune(dir, &mount_type, session.page_cache, volume_bytes);
    Ok((session, mount_type))
}

fn leave(dir: &Path, mount_type: &MountType) {
    if let Err(e) = mount::detach(dir, mount_type) {
        eprintln!("segno: cannot unmount {}: {e}", dir.display());
    }
}

pub(crate) fn options(opts: &FuseOptions) -> Vec<String> {
    // As a plain option the subtype also reaches the kernel without fusermount3. Most reads are served from the kernel's
    // cache, so access times cannot be maintained.
    let mut list = ["subtype=segno", "noatime", "default_permissions"].map(str::to_owned).to_vec();
    if opts.read_only {
        list.push("ro".into());
    }
    if opts.allow_other {
        list.push("allow_other".into());
    }
    list.extend(opts.extra.iter().cloned());
    list
}
