//! How volumes are opened.
use crate::device::{Device, RangeLock};
use crate::error::{Cause, Doing, Error, errno, refuse};
use segno_engine::options::{Discard, JournalMode, Parsed};
use segno_engine::{JournalArea, Observer};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// How to open a volume.
///
/// The methods set what most programs need. Everything else is a field of [`Settings`](crate::settings::MountOptions), or a word of
/// an option line, as `segno mount -o` takes it ([all words](crate::settings::table)):
///
/// ```
/// use segno::MountOptions;
/// use segno::settings::FsyncMode;
/// let options: MountOptions = "journal=on,gc_policy=atgc,commit=30".parse()?;
/// let options = options.settings(|s| s.fsync_mode = FsyncMode::Posix);
/// assert_eq!("mode=fast".parse::<MountOptions>().unwrap_err().to_string(),
///     "cannot read the mount options: mount option mode=fast: choose adaptive or lfs");
/// # Ok::<(), segno::Error>(())
/// ```
///
/// ```
/// # fn main() -> segno::Result<()> {
/// # let device = segno::Device::in_memory(64 << 20);
/// # segno::format(&device, &segno::FormatOptions::default())?;
/// use segno::{MountOptions, Volume};
/// let volume = Volume::open_with(&device, &MountOptions::new().read_only(true))?;
/// assert!(volume.write("/new", "x").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    engine: segno_engine::MountOptions,
    journal: Option<External>,
}

/// An external journal.
#[derive(Clone, Debug)]
enum External {
    Device(Device),
    /// Opened with the volume.
    Path(PathBuf),
}

impl MountOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Write nothing. It is implied by a device that is open for reading only.
    ///
    /// After a crash the volume is recovered in memory, so it is shown as a writable open leaves it. That takes up to 64 MiB or
    /// [`cache_bytes`](Self::cache_bytes), and the bytes in use of the journal; a volume that needs more is refused, see
    /// [`Error::needs_recovery`](crate::Error::needs_recovery).
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.engine.read_only = read_only;
        self
    }

    /// Show the volume as of its last checkpoint, without the data that was fsynced later and is to be recovered. Only
    /// together with [`read_only`](Self::read_only).
    #[must_use]
    pub fn skip_recovery(mut self, skip: bool) -> Self {
        self.engine.norecovery = skip;
        self
    }

    /// The external journal of the volume: a separate device or file. A volume that was mounted with one and not unmounted is
    /// opened only with it, see [`Error::needs_journal`](crate::Error::needs_journal). A read-only open replays the
    /// journal in memory; a writable one also makes a journal where the device is all zeros.
    #[must_use]
    pub fn journal(mut self, device: &Device) -> Self {
        self.journal = Some(External::Device(device.clone()));
        self
    }

    /// Memory for cached data and metadata, in bytes; 256 MiB by default.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.engine.cache_bytes = bytes;
        self
    }

    /// When segments that become free are discarded; by default once they were free for a day, counted while the volume is open.
    #[must_use]
    pub fn discard(mut self, discard: Discard) -> Self {
        self.engine.discard = discard;
        self
    }

    /// Whether threads write back, commit every five seconds, and clean; true by default. Without them, writing and cleaning
    /// happen in the calls that need memory or space, and nothing is committed until [`Volume::sync`](crate::Volume::sync), an fsync of a file, or
    /// [`Volume::close`](crate::Volume::close).
    #[must_use]
    pub fn background(mut self, background: bool) -> Self {
        self.engine.background = background;
        self
    }

    /// Changes any settings of the engine.
    ///
    /// ```
    /// # use segno::MountOptions;
    /// let options = MountOptions::new().settings(|s| {
    ///     s.compression.extensions = vec!["log".into()];
    ///     s.background_gc = false;
    /// });
    /// ```
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut segno_engine::MountOptions)) -> Self {
        change(&mut self.engine);
        self
    }

    /// Receives messages that belong to no call, such as that a journal was ignored. It is called from any thread and
    /// must not use the volume.
    #[must_use]
    pub fn on_notice(mut self, notice: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.engine.observer = Observer::new(move |n| notice(&n.to_string()));
        self
    }

    /// Parses words; `other` applies words that are not options of the engine.
    pub(crate) fn parse(
        words: &str,
        other: impl FnMut(&str, Option<&str>) -> Option<Result<(), String>>,
    ) -> Result<Self, Error> {
        let parsed = Parsed::parse_with(words, other).map_err(|why| refuse(errno::INVAL, why));
        let (engine, journal) = parsed.doing("read the mount options")?;
        Ok(Self { engine, journal: journal.map(External::Path) })
    }

    /// Those of the engine for a volume on this device, but for the journal.
    pub(crate) fn on(&self, device: &Device) -> segno_engine::MountOptions {
        let mut options = self.engine.clone();
        options.read_only |= device.storage().read_only();
        options
    }

    /// Those of the engine, and the journal's device in use.
    pub(crate) fn engine(
        &self,
        device: &Device,
    ) -> Result<(segno_engine::MountOptions, Option<RangeLock>), Cause> {
        let mut options = self.on(device);
        let journal = match &self.journal {
            None => return Ok((options, None)),
            Some(External::Device(journal)) => journal.clone(),
            Some(External::Path(path)) => Device::open_journal(path, options.read_only)?,
        };
        if journal.storage().read_only() && !options.read_only {
            return Err(refuse(errno::ROFS, "the journal is open for reading only"));
        }
        let lock = journal.lock_range()?;
        options.journal = JournalMode::External(JournalArea::whole(Arc::clone(journal.storage())));
        Ok((options, Some(lock)))
    }
}

/// Parses words of `segno mount -o`, separated by commas, that are options of the engine. Of repeated words
/// the last one wins. The path of a journal is opened with the volume.
impl FromStr for MountOptions {
    type Err = Error;

    fn from_str(words: &str) -> Result<Self, Error> {
        Self::parse(words, |_, _| None)
    }
}
