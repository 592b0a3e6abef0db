//! Opening and closing a volume.
use crate::device::Device;
use crate::dir::Dir;
use crate::error::{Cause, Doing, Result, StillOpen};
use crate::mount::Mount;
use crate::mount_options::MountOptions;
use std::ops::Deref;
use std::sync::Arc;

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
/// segno::format(&device, &FormatOptions::default())?;
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
    /// Opens the volume on a device; read-only if the device is. Changes left by a crash are recovered first.
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

    /// Writes everything and unmounts. It fails if a file, directory or iterator of the volume is still open, see
    /// [`Error::is_still_open`](crate::Error::is_still_open); the volume is unmounted then when the last of them is dropped.
    pub fn close(self) -> Result<()> {
        let mount = self.root.into_mount().and_then(Arc::into_inner);
        let closed: Result<(), Cause> = match mount {
            Some(mount) => mount.unmount().map_err(Cause::from),
            None => Err(StillOpen.into()),
        };
        closed.doing("close the volume")
    }

    /// The root directory, as a separate handle.
    #[must_use]
    pub fn root(&self) -> Dir {
        self.root.clone()
    }

    /// Makes all changes that were made before this call durable.
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
