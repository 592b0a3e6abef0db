//! FS_IOC_SHUTDOWN of a mount, for a caller on the host.
#![allow(unsafe_code)]
use crate::ioctl::SHUTDOWN;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Result;
use rustix::ioctl::{Getter, ioctl};
use std::path::Path;

/// Stops the volume of a mount that became read-only, whose attributes the kernel does not let anyone set.
///
/// # Errors
/// Those of the ioctl: `EPERM` without CAP_SYS_ADMIN, `EOPNOTSUPP` on a mount without the option `shutdown`.
pub fn shut_down_read_only(dir: &Path) -> Result<()> {
    let dir = openat(CWD, dir, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: the command returns one `u32` through its pointer and keeps none.
    unsafe { ioctl(&dir, Getter::<SHUTDOWN, u32>::new()) }.map(|_no_meaning| ())
}
