//! Opening and closing a volume.
use crate::device::{Claim, Device};
use crate::dir::Dir;
use crate::error::{Cause, Doing, Result, errno, refuse};
use crate::mount::Mount;
use segno_engine::options::{Discard, JournalMode};
use segno_engine::{JournalArea, Observer};
use std::ops::Deref;
use std::sync::Arc;

/// How to open a volume.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// # let device = segno::Device::in_memory(64 << 20);
/// # segno::format(&device, &segno::FormatOptions::new())?;
/// use segno::{MountOptions, Volume};
/// let volume = Volume::open_with(&device, &MountOptions::new().read_only(true))?;
/// assert!(volume.write("/new", "x").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    engine: segno_engine::MountOptions,
    journal: Option<Device>,
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
    /// journal in memory; a writable one also makes a journal where the device is all zeros. It allocates no storage for the
    /// holes of a file, as `segno mount` and `segno journal create` do; commits then wait for that.
    #[must_use]
    pub fn journal(mut self, device: &Device) -> Self {
        self.journal = Some(device.clone());
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
    /// happen in the calls that need memory or space, and nothing is committed until [`Volume::sync`], an fsync of a file, or
    /// [`Volume::close`].
    #[must_use]
    pub fn background(mut self, background: bool) -> Self {
        self.engine.background = background;
        self
    }

    /// Receives messages that belong to no call, such as that a journal was ignored. It is called from any thread and
    /// must not use the volume.
    #[must_use]
    pub fn on_notice(mut self, notice: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.engine.observer = Observer::new(move |n| notice(&n.to_string()));
        self
    }

    /// Those of the engine, and the journal's device in use.
    pub(crate) fn engine(
        &self,
        device: &Device,
    ) -> Result<(segno_engine::MountOptions, Option<Claim>), Cause> {
        let mut options = self.engine.clone();
        options.read_only |= device.storage().read_only();
        let Some(journal) = &self.journal else { return Ok((options, None)) };
        if journal.storage().read_only() && !options.read_only {
            return Err(refuse(errno::ROFS, "the journal is open for reading only"));
        }
        let claim = journal.claim()?;
        options.journal = JournalMode::External(JournalArea::whole(Arc::clone(journal.storage())));
        Ok((options, Some(claim)))
    }
}

/// Space and inodes of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatFs {
    /// Bytes in a block.
    pub block_size: u64,
    /// All blocks.
    pub blocks: u64,
    /// Free blocks that files can use.
    pub blocks_free: u64,
    /// Files and directories that there can be.
    pub files: u64,
    /// Those that can still be created.
    pub files_free: u64,
}

/// An open volume. It dereferences to its root directory, so every method of [`Dir`] is there too.
///
/// All methods take `&self` and may be called from any thread.
///
/// # Closing
///
/// [`close`](Self::close) writes everything, unmounts the volume and reports errors. Without it, the volume is unmounted
/// when the last handle is dropped, be it the `Volume`, a [`Dir`], a [`File`](crate::File) or an iterator; an error is
/// lost then. If the thread is panicking, dropping writes nothing: the volume is as after a power cut, what was synced
/// is recovered by the next open.
///
/// # Example
///
/// ```
/// use segno::{Device, FormatOptions, Volume};
///
/// # fn main() -> segno::Result<()> {
/// let device = Device::in_memory(64 << 20);
/// segno::format(&device, &FormatOptions::new())?;
/// let volume = Volume::open(&device)?;
/// volume.create_dir("/a")?;
/// volume.write("/a/greeting", "hello")?;
/// for entry in volume.read_dir("/a")? {
///     println!("{}", entry?.path().display());
/// }
/// volume.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Volume {
    root: Dir,
}

impl Volume {
    /// Opens the volume on a device; read-only if the device is. What a crash left undone is finished first.
    pub fn open(device: &Device) -> Result<Self> {
        Self::open_with(device, &MountOptions::new())
    }

    /// Opens the volume on a device with other options than the defaults.
    pub fn open_with(device: &Device, options: &MountOptions) -> Result<Self> {
        let mount = Mount::open(device, options);
        let mount = match device.path() {
            Some(path) => mount.doing_at("open the volume on", path),
            None => mount.doing("open the volume"),
        };
        Ok(Self { root: Dir::root_of(mount?) })
    }

    /// Writes everything and unmounts. It fails if a file, directory or iterator of the volume is still open; the volume
    /// is unmounted then when the last of them is dropped.
    pub fn close(self) -> Result<()> {
        let mount = self.root.into_mount().and_then(Arc::into_inner);
        let closed: Result<(), Cause> = match mount {
            Some(mount) => mount.unmount().map_err(Cause::from),
            None => Err(refuse(errno::BUSY, "files or directories are still open")),
        };
        closed.doing("close the volume")
    }

    /// The root directory, as a handle of its own.
    #[must_use]
    pub fn root(&self) -> Dir {
        self.root.clone()
    }

    /// Makes everything durable that was done before this call.
    pub fn sync(&self) -> Result<()> {
        self.root.engine().sync().doing("sync the volume")
    }

    /// Space and inode counts.
    #[must_use]
    pub fn statfs(&self) -> StatFs {
        let s = self.root.engine().statfs();
        StatFs {
            block_size: segno_format::BLOCK_SIZE as u64,
            blocks: s.blocks,
            blocks_free: s.bavail,
            files: s.files,
            files_free: s.ffree,
        }
    }

    /// The label.
    #[must_use]
    pub fn label(&self) -> String {
        self.root.engine().label()
    }

    /// Changes the label, up to 512 UTF-16 units. It is durable on return.
    pub fn set_label(&self, label: &str) -> Result<()> {
        self.root.engine().set_label(label).doing("change the label")
    }

    /// The id that the volume was given when it was formatted.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.root.engine().superblock().raw.uuid
    }
}

impl Deref for Volume {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        &self.root
    }
}
