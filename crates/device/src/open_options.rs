//! How devices are opened.
use crate::DeviceError;
use crate::in_use_by::InUseBy;
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// How to open a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Refuse writes; several readers may share an image file.
    pub read_only: bool,
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
}

impl OpenOptions {
    /// Why a path could not be opened with them.
    pub(crate) fn open_error(self, path: &Path, e: io::Error) -> DeviceError {
        let name = || path.display().to_string();
        match Errno::from_io_error(&e) {
            Some(Errno::BUSY) => DeviceError::InUse { path: name(), by: InUseBy::Unknown },
            Some(Errno::INVAL) if self.direct => DeviceError::NoDirect { path: name() },
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) if !self.read_only => {
                DeviceError::ReadOnly { path: name(), source: e }
            }
            _ => DeviceError::io("open", path, e),
        }
    }
}
