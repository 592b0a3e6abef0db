//! An open of a block device with `O_EXCL`. While it is held, the device can be neither mounted nor opened with `O_EXCL`
//! by others.
use crate::DeviceError;
use crate::OpenOptions;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An exclusive open that can be handed over: a mount of type `fuseblk` opens the device exclusively for the kernel and
/// fails while another has it.
#[derive(Debug)]
pub struct ExclusiveOpen {
    path: PathBuf,
    held: Mutex<Option<File>>,
}

impl ExclusiveOpen {
    pub(crate) fn take(path: &Path) -> Result<Self, DeviceError> {
        let path = std::path::absolute(path).map_err(|e| DeviceError::io("open", path, e))?;
        let held = Mutex::new(Some(open_exclusively(&path)?));
        Ok(Self { path, held })
    }

    /// The device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the exclusive open; the device stays open for I/O.
    pub fn release(&self) {
        *self.held.lock() = None;
    }

    /// Opens the device exclusively again.
    pub fn retake(&self) -> Result<(), DeviceError> {
        let mut held = self.held.lock();
        if held.is_none() {
            *held = Some(open_exclusively(&self.path)?);
        }
        Ok(())
    }
}

/// On a block device `O_EXCL` without `O_CREAT` means: fail when it is mounted or opened exclusively by another.
fn open_exclusively(path: &Path) -> Result<File, DeviceError> {
    let flags = OFlags::EXCL.bits().cast_signed();
    let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
    File::options().read(true).custom_flags(flags).open(path).map_err(|e| read_only.open_error(path, e))
}
