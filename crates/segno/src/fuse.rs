//! Mounting a volume from a program, as `segno mount` does.
//!
//! ```no_run
//! use segno::fuse::{Mount, run_broker_if_called};
//!
//! fn main() -> segno::Result<()> {
//!     run_broker_if_called();
//!     let device = segno::Device::open("disk.img")?;
//!     let mount = Mount::spawn(&device, "/mnt", &"commit=30,noexec".parse()?)?;
//!     println!("mounted at {}", mount.dir().display());
//!     // Until somebody calls umount(8).
//!     mount.wait()
//! }
//! ```
//!
//! The threads of the program serve the mount. A child process, the broker, makes and ends it. The broker
//! also ends it if the program was killed, so that no dead mount is left. It executes the same program, so
//! `main` begins with [`run_broker_if_called`]. Root mounts by mount(2), other users by fusermount3 (Debian
//! package fuse3).
//!
//! Signal handlers of the program are not changed: to end with the mount closed, it calls [`Mount::unmount`],
//! or drops the mount. Unlike the server of `segno mount` it keeps its rights as well, and no process-wide
//! setting is changed.
//!
//! A thread that waits for a mount served by its own process cannot be killed, so the program itself should
//! not use files below the directory.
use crate::device::Device;
use crate::error::{Cause, Doing, Error, Result, errno, refuse};
use crate::mount::Mount as Volume;
use crate::mount_options::MountOptions;
use parking_lot::Mutex;
use segno_device::{ExclusiveOpen, Location};
use segno_fuse::{AtDeath, Broker, FuseOptions, Queues, Serving, Unmounter, mountpoint};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

pub use segno_fuse::run_broker_if_called;

/// How to mount: [`MountOptions`] of the volume, and options of the mount itself.
///
/// They are words of `segno mount -o`, for the volume, the server and the kernel. As there, root's mounts are open to all users, and device nodes
/// and set-user-ID bits count on them.
///
/// ```
/// let options: segno::fuse::Options = "ro,gc_policy=atgc,uid=1000,noexec".parse()?;
/// let options = segno::fuse::Options::from(segno::MountOptions::new().read_only(true));
/// # Ok::<(), segno::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    volume: MountOptions,
    server: FuseOptions,
}

impl From<MountOptions> for Options {
    fn from(volume: MountOptions) -> Self {
        // `segno mounts` finds no options that were given.
        let in_force = "{}".into();
        Self {
            volume,
            server: FuseOptions { at_death: AtDeath::Unmount, in_force, ..FuseOptions::of_caller() },
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        MountOptions::new().into()
    }
}

/// Words with commas between them. Of repeated ones the last one wins.
impl FromStr for Options {
    type Err = Error;

    fn from_str(words: &str) -> Result<Self> {
        let mut options = Self::default();
        options.volume = MountOptions::parse(words, |name, value| options.server.apply(name, value))?;
        Ok(options)
    }
}

/// A mounted volume. Dropping it unmounts, even while files are open there, and loses errors.
///
/// The [`Device`] is in use until the mount has ended.
#[derive(Debug)]
pub struct Mount {
    dir: PathBuf,
    unmounter: Unmounter,
    /// Serves, and then closes the volume.
    thread: Mutex<Option<JoinHandle<Result<()>>>>,
}

impl Mount {
    /// Opens the volume on a device and mounts it at a directory. Requests are served when this returns.
    ///
    /// # Errors
    /// The directory cannot be mounted at, the volume cannot be opened, or this user may not mount. Nothing is left mounted.
    pub fn spawn(device: &Device, dir: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let dir = dir.as_ref();
        Self::start(device, dir, options).doing_at("mount at", dir)
    }

    fn start(device: &Device, dir: &Path, options: &Options) -> Result<Self, Cause> {
        let image = device
            .path()
            .map_or(Ok("segno".into()), |path| Location::of(path).canonical().map(|at| at.path()))?;
        let dir = mountpoint(dir, &image)?;
        let is_dirsync = options.server.is_dirsync();
        let volume = options.volume.clone().settings(|engine| engine.dirsync |= is_dirsync);
        let engine = volume.on(device);
        let volume = Volume::open(device, &volume)?;
        let storage = device.storage();
        let mut server = FuseOptions {
            source: image.display().to_string(),
            exclusive_open: storage.exclusive_open(),
            read_only: engine.read_only,
            acl: options.server.checks_acl(&engine),
            ..options.server.clone()
        };
        if device.path().is_some() {
            server.backing = server.backing_of(&image, &**storage, volume.engine.superblock())?;
        }
        let broker = Broker::start(&dir, &server)?;
        let (closed, closing) = (mpsc::channel(), Arc::clone(&volume));
        let close = move || {
            // If no thread waits, the mount was ended in another way.
            let _unheard = closed.0.send(closing.unmount());
        };
        let queues = Queues::prepare(&server);
        let (serving, unmounter) =
            Serving::start(Arc::clone(&volume.engine), broker, &server, queues, close)?;
        let serve = move || {
            Served { result: serving.wait(), volume, closed: closed.1, exclusive: server.exclusive_open }
                .end()
        };
        let thread = thread::Builder::new().name("segno-mount".into()).spawn(serve)?;
        Ok(Self { dir, unmounter, thread: Mutex::new(Some(thread)) })
    }

    /// The directory, without symbolic links.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Waits for the end of the mount, by [`unmount`](Self::unmount) in another thread or by umount(8). Everything is durable then, the volume is
    /// closed, and the device can be used again.
    ///
    /// # Errors
    /// The server failed, or the volume could not be closed. Of several calls that end with the mount one reports it.
    pub fn wait(&self) -> Result<()> {
        let mut thread = self.thread.lock();
        let Some(running) = thread.take() else { return Ok(()) };
        let panicked =
            |_| Err(refuse(errno::IO, "its thread panicked")).doing_at("serve the mount at", &self.dir);
        running.join().unwrap_or_else(panicked)
    }

    /// Unmounts, and returns as [`wait`](Self::wait) does.
    ///
    /// # Errors
    /// Those of `wait`. While a process has a file open there, or works there, the mount stays:
    /// [`ResourceBusy`](std::io::ErrorKind::ResourceBusy).
    pub fn unmount(&self) -> Result<()> {
        self.unmounter.unmount().map_err(|e| match e.kind() {
            io::ErrorKind::ResourceBusy => {
                let why = "a process has a file open there, or works there";
                Error::new("unmount", Some(&self.dir), refuse(errno::BUSY, why))
            }
            _ => Error::new("end a mount", None, e),
        })?;
        self.wait()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.unmounter.detach();
        let _nobody_to_report_to = self.wait();
    }
}

/// A mount that has ended, or whose server has failed.
struct Served {
    result: io::Result<()>,
    volume: Arc<Volume>,
    /// How the volume was closed, if umount(2) has waited for that.
    closed: mpsc::Receiver<Result<(), segno_engine::Error>>,
    /// Of the block device, which the mount may have taken.
    exclusive: Option<Arc<ExclusiveOpen>>,
}

impl Served {
    fn end(self) -> Result<()> {
        let closed = self.volume.unmount();
        let closed = self.closed.try_recv().unwrap_or(Ok(())).and(closed);
        self.result.doing("serve a mount")?;
        closed.doing("close the volume")?;
        self.exclusive.map_or(Ok(()), |exclusive| exclusive.retake()).doing("use the device again")
    }
}
