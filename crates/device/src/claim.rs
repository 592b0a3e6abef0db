//! The exclusive claim of a block device. While it is held, the device can be neither mounted nor opened with `O_EXCL`
//! by others.
use crate::DeviceError;
use crate::OpenOptions;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A claim that can be handed over: a mount of type `fuseblk` claims the device for the kernel and fails while it is held
/// elsewhere.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    held: Mutex<Option<File>>,
}

impl Claim {
    pub(crate) fn take(path: &Path) -> Result<Self, DeviceError> {
        let path = std::path::absolute(path).map_err(|e| DeviceError::io("open", path, e))?;
        let held = Mutex::new(Some(open_exclusively(&path)?));
        Ok(Self { path, held })
    }

    /// The device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Releases the claim; the device stays open.
    pub fn release(&self) {
        *self.held.lock() = None;
    }

    /// Claims the device again.
    pub fn retake(&self) -> Result<(), DeviceError> {
        let mut held = self.held.lock();
        if held.is_none() {
            *held = Some(open_exclusively(&self.path)?);
        }
        Ok(())
    }
}

/// On a block device `O_EXCL` without `O_CREAT` means: fail when it is mounted or otherwise claimed.
fn open_exclusively(path: &Path) -> Result<File, DeviceError> {
    let flags = OFlags::EXCL.bits().cast_signed();
    let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
    File::options().read(true).custom_flags(flags).open(path).map_err(|e| read_only.open_error(path, e))
}
