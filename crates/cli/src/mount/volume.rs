//! The volume of a server: opened with the settings of a mount, closed clean.
use super::options::{Settings, compress};
use crate::{external_journal, image, store};
use anyhow::{Context, Result};
use parking_lot::Mutex;
use segno::inspect;
use segno_device::{BlockDevice, Location, OpenOptions};
use segno_engine::options::JournalMode;
use segno_engine::{Background, JournalArea, MountOptions, Volume};
use segno_journal::Content;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Devices that are open and locked.
pub struct Devices {
    image: PathBuf,
    pub device: Arc<dyn BlockDevice>,
    engine: MountOptions,
    /// Options about compression.
    compression: Vec<String>,
}

/// A volume in use.
pub struct Served {
    image: PathBuf,
    pub device: Arc<dyn BlockDevice>,
    pub volume: Arc<Volume>,
    pub closing: Arc<Closing>,
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
        let mut engine = MountOptions { observer: image::observer(), ..settings.engine.clone() };
        if let Some(path) = &settings.journal {
            let options = OpenOptions { read_only: settings.engine.read_only, direct: settings.direct };
            engine.journal =
                JournalMode::External(journal(path, &paths(image, settings), options, &*device)?);
        }
        Ok(Self { image: image.to_owned(), device, engine, compression: settings.compression.clone() })
    }

    /// Mounts the volume and starts its background threads.
    pub fn mount(self) -> Result<Served> {
        let Self { image, device, engine, compression } = self;
        let volume = Volume::mount(device.clone(), engine).with_context(|| image::cannot_read(&image))?;
        if let Some(note) = compress::without_effect(&compression, volume.superblock().features) {
            eprintln!("segno: note: {note}");
        }
        let closing = Arc::new(Closing::new(volume.clone())?);
        Ok(Served { image, device, volume, closing })
    }
}

/// Those of all devices of a volume.
fn paths(image: &Path, settings: &Settings) -> Vec<PathBuf> {
    std::iter::once(image).chain(settings.devices.iter().map(PathBuf::as_path)).map(Path::to_owned).collect()
}

/// The external journal. A new one gets its storage now.
fn journal(
    path: &Path,
    images: &[PathBuf],
    options: OpenOptions,
    volume: &dyn BlockDevice,
) -> Result<JournalArea> {
    let area = JournalArea::whole(external_journal::open(path, images, options)?);
    let cannot_use = || format!("cannot use the journal {}", path.display());
    let uuid = inspect::superblock(volume)?.raw.uuid;
    if !options.read_only && area.content(&uuid).with_context(cannot_use)? == Content::Nothing {
        area.prepare().with_context(cannot_use)?;
    }
    Ok(area)
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
        served.and(closed).and(ended)
    }
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
