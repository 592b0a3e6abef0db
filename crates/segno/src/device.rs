//! The storage that holds a volume.
use crate::error::{Cause, Doing, Result, errno, refuse};
use parking_lot::Mutex;
use segno_device::{
    BlockDevice, DeviceError, FileDevice, MemDevice, OpenOptions, open_storage, open_volume,
    require_superblock,
};
use segno_format::BLOCK_SIZE;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const READ_ONLY: OpenOptions = OpenOptions { read_only: true, direct: false };

/// The storage that holds a volume: an image file, a block device, or memory.
///
/// Clones refer to the same storage. It is locked against other processes until the last clone is dropped, and used by
/// one [`Volume`](crate::Volume), [`format`](crate::format()) or [`check`](crate::check()) at a time: others are refused
/// with [`ResourceBusy`](std::io::ErrorKind::ResourceBusy).
///
/// ```no_run
/// # fn main() -> segno::Result<()> {
/// let image = segno::Device::create("disk.img", 4 << 30)?;
/// let card = segno::Device::open("/dev/mmcblk0p3")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Device {
    storage: Arc<dyn BlockDevice>,
    path: Option<PathBuf>,
    in_use: Arc<AtomicBool>,
    /// Paths that the superblock records for further devices, if none was named.
    unnamed: Arc<Mutex<Vec<PathBuf>>>,
}

impl Device {
    /// Opens an image file or block device for reading and writing. Of a volume of several devices, [`Device::open_several`] opens
    /// them all: paths that a superblock records are never opened, and the volume is refused without them.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_storage(&[path], OpenOptions::default())
    }

    /// Opens an image file or block device for reading. Several processes may read one image file.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_storage(&[path], READ_ONLY)
    }

    /// Opens all devices of a volume of several for reading and writing, the one with the superblock first and the others in the
    /// order of its table.
    pub fn open_several(paths: &[impl AsRef<Path>]) -> Result<Self> {
        Self::open_storage(paths, OpenOptions::default())
    }

    /// Opens all devices of a volume of several for reading, in the same order.
    pub fn open_several_read_only(paths: &[impl AsRef<Path>]) -> Result<Self> {
        Self::open_storage(paths, READ_ONLY)
    }

    /// Makes a sparse image file of `bytes`. A file that exists already is refused.
    pub fn create(path: impl AsRef<Path>, bytes: u64) -> Result<Self> {
        let path = path.as_ref();
        let file = FileDevice::create(path, bytes, false).doing_at("create", path)?;
        Ok(Self::at(path, Arc::new(file)))
    }

    /// A device in memory, all zeros. It takes as much memory as was written to it.
    #[must_use]
    pub fn in_memory(bytes: u64) -> Self {
        Self::from(Arc::new(MemDevice::new(bytes / BLOCK_SIZE as u64)) as Arc<dyn BlockDevice>)
    }

    fn open_storage(paths: &[impl AsRef<Path>], options: OpenOptions) -> Result<Self> {
        let path = paths.first().map_or(Path::new(""), |path| path.as_ref());
        let mut unnamed = Vec::new();
        let storage = match (open_volume(paths, options), paths) {
            // It can be formatted again.
            (Err(DeviceError::NotNamed { recorded, .. }), _) => {
                unnamed = recorded;
                open_storage(path, options)
            }
            // Nothing to join: not formatted yet, too damaged for it, or only to be formatted.
            (
                Err(
                    DeviceError::NoSuperblock { .. }
                    | DeviceError::TooSmall { .. }
                    | DeviceError::Unsupported { .. },
                ),
                [_],
            ) => open_storage(path, options),
            (other, _) => other,
        };
        let unnamed = Arc::new(Mutex::new(unnamed));
        Ok(Self { unnamed, ..Self::at(path, storage.doing_at("open", path)?) })
    }

    /// Opens a file or device that holds an external journal.
    pub(crate) fn open_journal(path: &Path, read_only: bool) -> Result<Self, DeviceError> {
        Ok(Self::at(path, open_storage(path, OpenOptions { read_only, direct: false })?))
    }

    fn at(path: &Path, storage: Arc<dyn BlockDevice>) -> Self {
        Self { path: Some(path.to_owned()), ..Self::from(storage) }
    }

    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.storage.block_count().saturating_mul(BLOCK_SIZE as u64)
    }

    pub(crate) fn storage(&self) -> &Arc<dyn BlockDevice> {
        &self.storage
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Also refuses a device without a superblock, if the reason is one of those; then names its contents.
    pub(crate) fn require_superblock(&self, refused: impl Fn(&DeviceError) -> bool) -> Result<(), Cause> {
        self.require_named()?;
        let name = self.path().unwrap_or(Path::new("the device"));
        match require_superblock(name, &*self.storage) {
            Err(e @ DeviceError::NoSuperblock { .. }) if refused(&e) => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Refuses the first of several devices without the others.
    pub(crate) fn require_named(&self) -> Result<(), Cause> {
        let recorded = self.unnamed.lock().clone();
        if recorded.is_empty() {
            return Ok(());
        }
        let path = self.path().unwrap_or(Path::new("the device")).display().to_string();
        Err(DeviceError::NotNamed { path, recorded }.into())
    }

    /// After a format, the volume has no further devices.
    pub(crate) fn forget_unnamed(&self) {
        self.unnamed.lock().clear();
    }

    /// Takes the device for one user.
    pub(crate) fn claim(&self) -> Result<Claim, Cause> {
        if self.in_use.swap(true, Ordering::AcqRel) {
            return Err(refuse(errno::BUSY, "the device is in use by this process"));
        }
        Ok(Claim(self.in_use.clone()))
    }
}

/// Wraps storage of another kind; several devices can be joined with `segno_device::MultiDevice`. The caller makes sure that
/// nothing else uses the storage.
impl From<Arc<dyn BlockDevice>> for Device {
    fn from(storage: Arc<dyn BlockDevice>) -> Self {
        Self { storage, path: None, in_use: Arc::default(), unnamed: Arc::default() }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("path", &self.path).field("size", &self.size()).finish_non_exhaustive()
    }
}

/// Gives the device back when dropped.
#[derive(Debug)]
pub(crate) struct Claim(Arc<AtomicBool>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
