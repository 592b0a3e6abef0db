//! Where a volume can be mounted.
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::fs::metadata;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// The directory without symbolic links, if a volume in this image can be mounted there.
///
/// # Errors
/// It is missing, is no directory, belongs to a server that has died, or would hide the image; or there is no
/// FUSE for this user.
pub fn mountpoint(dir: &Path, image: &Path) -> Result<PathBuf> {
    let found = metadata(dir).map_err(|e| match Errno::from_io_error(&e) {
        Some(Errno::NOENT) => {
            let why = format!("there is no such directory: `mkdir {}` makes it", dir.display());
            Error::new(e.kind(), why)
        }
        Some(Errno::NOTCONN) => {
            let why = format!("the server of a mount there has died: `segno umount {}`", dir.display());
            Error::new(e.kind(), why)
        }
        _ => e,
    })?;
    if !found.is_dir() {
        return Err(Error::new(ErrorKind::NotADirectory, "it is not a directory"));
    }
    let dir = dir.canonicalize()?;
    if image.starts_with(&dir) {
        return Err(Error::new(ErrorKind::InvalidInput, "that would hide the image itself"));
    }
    access("/dev/fuse", Access::READ_OK | Access::WRITE_OK).map_err(|e| match e {
        Errno::ACCESS => Error::new(
            ErrorKind::PermissionDenied,
            "/dev/fuse is closed to this user; root opens it: chmod 666 /dev/fuse",
        ),
        _ => Error::new(
            Error::from(e).kind(),
            format!("/dev/fuse: {e}; try `modprobe fuse`, or give the container --device /dev/fuse"),
        ),
    })?;
    Ok(dir)
}
