//! Type and size of the storage at a path.
use crate::DeviceError;
use rustix::fs::ioctl_blksszget;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The two kinds of storage a path may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// A regular file.
    Regular,
    /// A block device.
    BlockDevice,
}

/// What [`probe`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Kind of storage.
    pub kind: StorageKind,
    /// Size in bytes.
    pub bytes: u64,
    /// Logical sector size: the device's own, or 512 for a file.
    pub sector_size: u32,
}

/// Reads type and size without claiming or changing the storage.
pub fn probe(path: &Path) -> Result<Probe, DeviceError> {
    // The kind is looked at first because opening a FIFO would block.
    kind(path)?;
    let file = File::open(path).map_err(|e| DeviceError::io("open", path, e))?;
    probe_file(path, &file)
}

/// The kind of storage a path names.
pub(crate) fn kind(path: &Path) -> Result<StorageKind, DeviceError> {
    let meta = path.metadata().map_err(|e| DeviceError::io("open", path, e))?;
    kind_of(path, meta.file_type())
}

pub(crate) fn probe_file(path: &Path, file: &File) -> Result<Probe, DeviceError> {
    let meta = file.metadata().map_err(|e| DeviceError::io("stat", path, e))?;
    match kind_of(path, meta.file_type())? {
        StorageKind::Regular => Ok(Probe { kind: StorageKind::Regular, bytes: meta.len(), sector_size: 512 }),
        StorageKind::BlockDevice => {
            probe_block_device(file).map_err(|e| DeviceError::io("find the size of", path, e))
        }
    }
}

fn kind_of(path: &Path, kind: std::fs::FileType) -> Result<StorageKind, DeviceError> {
    if kind.is_file() {
        Ok(StorageKind::Regular)
    } else if kind.is_block_device() {
        Ok(StorageKind::BlockDevice)
    } else {
        Err(DeviceError::NotStorage { path: path.display().to_string() })
    }
}

fn probe_block_device(mut file: &File) -> io::Result<Probe> {
    let bytes = file.seek(SeekFrom::End(0))?;
    Ok(Probe { kind: StorageKind::BlockDevice, bytes, sector_size: ioctl_blksszget(file)? })
}
