//! Mounting, serving, and leaving in order: signals and umount(8) both end with a clean checkpoint.
use crate::fs::SegnoFs;
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::mount::UnmountFlags;
use segno_engine::Volume;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// How to mount.
#[derive(Clone, Debug, Default)]
pub struct FuseOptions {
    /// Source shown in /proc/mounts: the image.
    pub source: String,
    pub read_only: bool,
    /// Let other users in; they need `user_allow_other` in /etc/fuse.conf unless root mounts.
    pub allow_other: bool,
    pub acl: bool,
    /// Flags and options for the kernel, as given (`noatime`, `dev`, `suid`, `noexec` …).
    pub extra: Vec<String>,
    /// Server threads; 0 means one for each CPU, at least two.
    pub threads: usize,
}

/// How long requests in flight may take after a signal before the server leaves without their callers.
const GRACE: Duration = Duration::from_secs(2);

/// What ends a mount.
enum End {
    Served(io::Result<()>),
    Signal,
}

/// Mounts, calls `ready` once the mount answers, and serves until it is unmounted or a signal asks to leave. The volume
/// is still mounted in the engine's sense when this returns; unmount it and leave the process.
pub fn serve(volume: Arc<Volume>, dir: &Path, opts: &FuseOptions, ready: impl FnOnce()) -> io::Result<()> {
    let fs = SegnoFs { volume, acl: opts.acl };
    let session = Session::new(fs, dir, &config(opts))?;
    let (ended, end) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let signalled = ended.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            // The receiver is gone only when the mount has ended anyway.
            let _ = signalled.send(End::Signal);
        }
    })?;
    thread::Builder::new().name("session".into()).spawn(move || {
        let _ = ended.send(End::Served(session.run()));
    })?;
    ready();
    match end.recv() {
        Ok(End::Served(result)) => result,
        Ok(End::Signal) => leave(dir, &end),
        Err(_) => Err(io::Error::other("the session thread ended without a word")),
    }
}

/// Takes the mount away even if it is in use: who still has files open gets errors from now on.
fn leave(dir: &Path, end: &mpsc::Receiver<End>) -> io::Result<()> {
    if rustix::mount::unmount(dir, UnmountFlags::DETACH).is_err() {
        let status = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(dir).status()?;
        if !status.success() {
            eprintln!("segno: {} stays mounted: fusermount3 failed", dir.display());
        }
    }
    match end.recv_timeout(GRACE) {
        Ok(End::Served(result)) => result,
        Ok(End::Signal) | Err(_) => Ok(()),
    }
}

fn config(opts: &FuseOptions) -> Config {
    let mut config = Config::default();
    let mut list = vec![
        MountOption::FSName(opts.source.clone()),
        // As a plain option it reaches the kernel also without fusermount3.
        MountOption::CUSTOM("subtype=segno".into()),
        MountOption::DefaultPermissions,
    ];
    if opts.read_only {
        list.push(MountOption::RO);
    }
    list.extend(opts.extra.iter().map(|o| mount_option(o)));
    config.mount_options = list;
    config.acl = if opts.allow_other { SessionACL::All } else { SessionACL::Owner };
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    config.n_threads = Some(if opts.threads == 0 { cpus.max(2) } else { opts.threads });
    config.clone_fd = true;
    config
}

fn mount_option(name: &str) -> MountOption {
    match name {
        "dev" => MountOption::Dev,
        "nodev" => MountOption::NoDev,
        "suid" => MountOption::Suid,
        "nosuid" => MountOption::NoSuid,
        "exec" => MountOption::Exec,
        "noexec" => MountOption::NoExec,
        "atime" => MountOption::Atime,
        "noatime" => MountOption::NoAtime,
        "dirsync" => MountOption::DirSync,
        "sync" => MountOption::Sync,
        "async" => MountOption::Async,
        "auto_unmount" => MountOption::AutoUnmount,
        other => MountOption::CUSTOM(other.to_owned()),
    }
}
