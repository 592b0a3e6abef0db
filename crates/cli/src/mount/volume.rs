//! The volume of a server: opened with the settings of a mount, closed clean.
use super::options::{Settings, compress};
use super::supervisor;
use crate::exit::WithCode;
use crate::{external_journal, image, out, store};
use anyhow::{Context, Result, anyhow};
use parking_lot::Mutex;
use segno_device::{BlockDevice, Location, OpenOptions};
use segno_engine::options::JournalMode;
use segno_engine::{Background, JournalArea, MountOptions, Notice, Observer, Volume};
use signal_hook::consts::SIGTERM;
use signal_hook::low_level::raise;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Devices that are open and locked.
pub struct Devices {
    image: PathBuf,
    pub device: Arc<dyn BlockDevice>,
    engine: MountOptions,
    /// Options about compression.
    compression: Vec<String>,
    /// Set when the volume of a mount that is kept stops.
    stopped: Arc<AtomicBool>,
}

/// A volume in use.
pub struct Served {
    image: PathBuf,
    pub device: Arc<dyn BlockDevice>,
    pub volume: Arc<Volume>,
    pub closing: Arc<Closing>,
    stopped: Arc<AtomicBool>,
}

/// The location of an image with an absolute path, or a URL.
pub fn absolute(image: &Path) -> Result<PathBuf> {
    if store::is_url(image) {
        return Ok(image.to_owned());
    }
    let at = Location::of(image).canonical();
    at.map(|at| at.path()).with_context(|| format!("cannot open {}", image.display()))
}

impl Devices {
    /// Opens all devices of a volume, on this machine by `open`.
    pub fn open(image: &Path, settings: &Settings, open: image::Open) -> Result<Self> {
        let options = OpenOptions { read_only: settings.engine.read_only, direct: settings.direct };
        let device = image::open_with(&paths(image, settings), options, &settings.store, open)?;
        Self::of(device, image, settings)
    }

    /// Devices that are open, with the external journal that the settings name.
    pub fn of(device: Arc<dyn BlockDevice>, image: &Path, settings: &Settings) -> Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        let observer = if settings.kept { ending(stopped.clone()) } else { image::observer() };
        let mut engine = MountOptions { observer, ..settings.engine.clone() };
        if let Some(path) = &settings.journal {
            let options = OpenOptions { read_only: settings.engine.read_only, direct: settings.direct };
            let area = JournalArea::whole(external_journal::open(path, &paths(image, settings), options)?);
            engine.journal = JournalMode::External(area);
        }
        Ok(Self {
            image: image.to_owned(),
            device,
            engine,
            compression: settings.compression.clone(),
            stopped,
        })
    }

    /// Mounts the volume and starts its background threads.
    pub fn mount(self) -> Result<Served> {
        let Self { image, device, engine, compression, stopped } = self;
        let volume = Volume::mount(device.clone(), engine).with_context(|| image::cannot_read(&image))?;
        if let Some(note) = compress::without_effect(&compression, volume.superblock().features) {
            eprintln!("segno: note: {note}");
        }
        let closing = Arc::new(Closing::new(volume.clone())?);
        Ok(Served { image, device, volume, closing, stopped })
    }
}

/// Those of all devices of a volume.
fn paths(image: &Path, settings: &Settings) -> Vec<PathBuf> {
    std::iter::once(image).chain(settings.devices.iter().map(PathBuf::as_path)).map(Path::to_owned).collect()
}

/// Notes in the log that the mount has replayed a journal or fsyncs. A server in the background has a log once it is announced.
pub fn log_recovery(volume: &Volume, image: &Path) {
    if volume.has_recovered() {
        out::event(format_args!("what a crash left on {} was replayed", image.display()));
    }
}

impl Served {
    /// Closes volume and device after the server has ended.
    pub fn end(self, served: Result<()>) -> Result<()> {
        self.closing.run();
        let closed = self
            .closing
            .result()
            .with_context(|| format!("the last checkpoint of {} failed", self.image.display()));
        // Threads that still refer to the device may outlive this function, so it is not left to the last of them.
        let ended = self.device.close().with_context(|| format!("cannot close {}", self.image.display()));
        let done = served.and(closed).and(ended);
        if self.stopped.load(Ordering::Acquire) {
            let why = done.err().unwrap_or_else(|| anyhow!("the volume on {} stopped", self.image.display()));
            return Err(WithCode(supervisor::STOPPED, why).into());
        }
        done
    }
}

/// Prints notices, and ends the server if the volume stops: the supervisor of the mount makes it again,
/// read-only.
fn ending(stopped: Arc<AtomicBool>) -> Observer {
    Observer::new(move |notice| {
        eprintln!("segno: {notice}");
        if matches!(notice, Notice::Stopped(_)) {
            stopped.store(true, Ordering::Release);
            // Before the mount responds it fails in any case, and the signal ends what is left.
            let _unsent = raise(SIGTERM);
        }
    })
}

/// Closes a volume once: while the kernel waits in umount(2), else after the mount has ended.
pub struct Closing {
    volume: Arc<Volume>,
    /// The background thread ends before the volume does.
    background: Mutex<Option<Background>>,
    error: Mutex<Option<segno_engine::Error>>,
}

impl Closing {
    fn new(volume: Arc<Volume>) -> std::io::Result<Self> {
        let background = Mutex::new(Some(Background::start(&volume)?));
        Ok(Self { volume, background, error: Mutex::new(None) })
    }

    /// Returns when the volume is closed.
    pub fn run(&self) {
        let mut background = self.background.lock();
        if let Some(running) = background.take() {
            drop(running);
            *self.error.lock() = self.volume.unmount().err();
        }
    }

    fn result(&self) -> Result<(), segno_engine::Error> {
        self.error.lock().take().map_or(Ok(()), Err)
    }
}
