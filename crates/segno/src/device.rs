//! The storage that holds a volume.
use crate::error::{Cause, Doing, Result, errno, refuse};
use parking_lot::Mutex;
use segno_device::{
    BlockDevice, DeviceError, FileDevice, MemDevice, OpenOptions, StreamDevice, WindowDevice, open_storage,
    open_volume, require_superblock,
};
use segno_format::BLOCK_SIZE;
use std::fmt;
use std::io::{Cursor, ErrorKind, Read, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const READ_ONLY: OpenOptions = OpenOptions { read_only: true, direct: false };

/// The storage that holds a volume: an image file, a block device, memory, or anything that can be read and written.
///
/// | from | use |
/// |---|---|
/// | the path of an image file, a block device, or a partition of one | [`open`](Self::open), [`create`](Self::create) |
/// | bytes in memory | [`from_bytes`](Self::from_bytes), [`in_memory`](Self::in_memory) |
/// | `Read + Write + Seek`, or `Read + Seek` | [`from_stream`](Self::from_stream), [`from_reader`](Self::from_reader) |
/// | a part of another device | [`window`](Self::window) |
/// | an implementation of [`BlockDevice`] | `From<Arc<dyn BlockDevice>>` |
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
    /// Blocks of the storage that windows are counted in.
    blocks: Range<u64>,
    /// Blocks in use, of the same storage.
    in_use: Arc<Mutex<Vec<Range<u64>>>>,
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

    /// A device on a stream, such as a decrypted file, from its byte 0 on. The caller makes sure that nothing else uses it. A flush calls
    /// [`Write::flush`], which must make durable what was written, if that is wanted of the volume: that of [`std::fs::File`] does not.
    ///
    /// ```
    /// # fn main() -> segno::Result<()> {
    /// use segno::{Device, FormatOptions, Volume};
    /// # let file = tempfile::tempfile().expect("a file");
    /// file.set_len(64 << 20).expect("space");
    /// let device = Device::from_stream(file)?;
    /// segno::format(&device, &FormatOptions::default())?;
    /// let volume = Volume::open(&device)?;
    /// volume.write("/a", "x")?;
    /// volume.close()
    /// # }
    /// ```
    pub fn from_stream(stream: impl Read + Write + Seek + Send + 'static) -> Result<Self> {
        let device = StreamDevice::new(stream, 0..u64::MAX).doing("read the stream")?;
        Ok(Self::from(Arc::new(device) as Arc<dyn BlockDevice>))
    }

    /// A device on a stream that is only read.
    ///
    /// ```no_run
    /// # fn main() -> segno::Result<()> {
    /// let device = segno::Device::from_reader(std::io::Cursor::new([0; 8192]))?;
    /// let volume = segno::Volume::open(&device)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_reader(stream: impl Read + Seek + Send + 'static) -> Result<Self> {
        let device = StreamDevice::read_only(stream, 0..u64::MAX).doing("read the stream")?;
        Ok(Self::from(Arc::new(device) as Arc<dyn BlockDevice>))
    }

    /// A device of bytes in memory, which are only read: `&'static [u8]`, `Vec<u8>`, `Arc<[u8]>`, `Bytes`, a memory map.
    ///
    /// ```no_run
    /// # fn main() -> segno::Result<()> {
    /// let device = segno::Device::from_bytes(std::fs::read("disk.img").expect("an image"))?;
    /// let volume = segno::Volume::open(&device)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Self> {
        Self::from_reader(Cursor::new(bytes))
    }

    /// A part of this device, in bytes: multiples of 4096. Parts that do not overlap can be used at a time.
    ///
    /// ```
    /// # fn main() -> segno::Result<()> {
    /// let disk = segno::Device::in_memory(256 << 20);
    /// let volume = disk.window(1 << 20, 64 << 20)?;
    /// segno::format(&volume, &segno::FormatOptions::default())?;
    /// assert!(segno::check(&volume)?.is_clean() && disk.window(1, 4096).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn window(&self, offset: u64, bytes: u64) -> Result<Self> {
        let block = |n: u64| n.is_multiple_of(BLOCK_SIZE as u64).then_some(n / BLOCK_SIZE as u64);
        let (Some(start), Some(count)) = (block(offset), block(bytes)) else {
            let why = "a part of a device begins and ends at multiples of 4096 bytes";
            return Err(refuse(errno::INVAL, why)).doing("use a part of the device");
        };
        let window = WindowDevice::new(Arc::clone(&self.storage), start, count).map_err(|e| match e.kind() {
            ErrorKind::InvalidInput => refuse(errno::INVAL, e.to_string()),
            ErrorKind::Unsupported => refuse(errno::OPNOTSUPP, e.to_string()),
            _ => e.into(),
        });
        let storage: Arc<dyn BlockDevice> = Arc::new(window.doing("use a part of the device")?);
        let start = self.blocks.start.saturating_add(start);
        let blocks = start..start.saturating_add(count.max(1));
        Ok(Self { blocks, in_use: Arc::clone(&self.in_use), ..Self::from(storage) })
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

    /// Locks the blocks of the device for one user in this process.
    pub(crate) fn lock_range(&self) -> Result<RangeLock, Cause> {
        let mut in_use = self.in_use.lock();
        if in_use.iter().any(|used| used.start < self.blocks.end && self.blocks.start < used.end) {
            return Err(refuse(errno::BUSY, "the device is in use by this process"));
        }
        in_use.push(self.blocks.clone());
        Ok(RangeLock { of: self.in_use.clone(), blocks: self.blocks.clone() })
    }
}

/// Wraps storage of another kind; several devices can be joined with `segno_device::MultiDevice`. The caller makes sure that
/// nothing else uses the storage.
impl From<Arc<dyn BlockDevice>> for Device {
    fn from(storage: Arc<dyn BlockDevice>) -> Self {
        // One without blocks has a user, too.
        let blocks = 0..storage.block_count().max(1);
        Self { storage, path: None, blocks, in_use: Arc::default(), unnamed: Arc::default() }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("path", &self.path).field("size", &self.size()).finish_non_exhaustive()
    }
}

/// Keeps other users in this process from the same blocks until dropped.
#[derive(Debug)]
pub(crate) struct RangeLock {
    of: Arc<Mutex<Vec<Range<u64>>>>,
    blocks: Range<u64>,
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        self.of.lock().retain(|used| *used != self.blocks);
    }
}
