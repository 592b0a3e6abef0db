//! Storage that the host gives to image files.
use segno_format::BLOCK_SIZE;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Unit of `st_blocks`.
const ST_BLOCK: u64 = 512;

/// Storage of an image file, in blocks. A write to a block without storage fails once none is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostStorage {
    /// Blocks that have storage.
    pub allocated: u64,
    /// Blocks that the host's file system can still store.
    pub available: u64,
}

impl HostStorage {
    /// Of a regular file.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let host = rustix::fs::fstatvfs(file)?;
        let block = BLOCK_SIZE as u64;
        let allocated = file.metadata()?.blocks().saturating_mul(ST_BLOCK) / block;
        Ok(Self { allocated, available: host.f_bavail.saturating_mul(host.f_frsize) / block })
    }

    /// Of two files that may be on one host file system.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            allocated: self.allocated.saturating_add(other.allocated),
            available: self.available.min(other.available),
        }
    }
}
