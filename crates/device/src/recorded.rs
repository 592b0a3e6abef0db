//! The paths that the device table of a superblock records. They are untrusted, as is all data of an image: a path is opened if the caller
//! names it, and without that only where [`trusted`] permits it.
use crate::{BlockDevice, DeviceError, share_storage};
use segno_format::superblock::Superblock;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Where recorded devices are. In directories that other users can write, a path may lead elsewhere after the check.
const DEV: &str = "/dev";

/// The recorded paths of all devices but the first.
pub(crate) fn paths(superblock: &Superblock) -> Vec<PathBuf> {
    let further = superblock.devices.iter().skip(1);
    further.map(|d| OsString::from_vec(d.path.clone()).into()).collect()
}

/// The recorded devices, with symbolic links resolved, if Linux would open them too: for root, and if the first device and all of
/// them are block devices.
pub(crate) fn trusted(first: &dyn BlockDevice, recorded: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let may_follow = rustix::process::geteuid().is_root() && first.exclusive_open().is_some();
    may_follow.then(|| recorded.iter().map(|path| block_device(path)).collect())?
}

fn block_device(path: &Path) -> Option<PathBuf> {
    let resolved = path.starts_with(DEV).then(|| path.canonicalize().ok())??;
    let is_device =
        resolved.starts_with(DEV) && resolved.metadata().is_ok_and(|m| m.file_type().is_block_device());
    is_device.then_some(resolved)
}

/// Refuses a device in two places of the volume, under one path or several, and a partition next to its disk.
pub(crate) fn refuse_twice<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<(), DeviceError> {
    let mut seen: Vec<&Path> = Vec::new();
    for path in paths {
        if seen.iter().any(|other| share_storage(other, path)) {
            return Err(DeviceError::Twice { path: path.display().to_string() });
        }
        seen.push(path);
    }
    Ok(())
}
