//! The two kinds of storage.
use crate::DeviceError;
use std::fs::FileType;
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

/// The kind of storage a path names.
pub(crate) fn kind(path: &Path) -> Result<StorageKind, DeviceError> {
    let meta = path.metadata().map_err(|e| DeviceError::io("open", path, e))?;
    kind_of(path, meta.file_type())
}

pub(crate) fn kind_of(path: &Path, kind: FileType) -> Result<StorageKind, DeviceError> {
    if kind.is_file() {
        Ok(StorageKind::Regular)
    } else if kind.is_block_device() {
        Ok(StorageKind::BlockDevice)
    } else {
        Err(DeviceError::NotStorage { path: path.display().to_string() })
    }
}
