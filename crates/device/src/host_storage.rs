//! Storage that the host gives to image files.
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use segno_format::BLOCK_SIZE;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

/// Pieces between holes that are counted; later ones are taken to be all data.
const PIECES: usize = 1024;

/// Bytes of a range that are not holes.
fn data_in(file: &File, bytes: Range<u64>) -> io::Result<u64> {
    let (mut at, mut found) = (bytes.start, 0u64);
    for _ in 0..PIECES {
        if at >= bytes.end {
            return Ok(found);
        }
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(found),
            Err(e) => return Err(e.into()),
        };
        at = seek(file, SeekFrom::Hole(data))?;
        found = found.saturating_add(at.min(bytes.end).saturating_sub(data));
    }
    Ok(found.saturating_add(bytes.end.saturating_sub(at)))
}

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
    /// Of bytes of a regular file.
    pub(crate) fn of(file: &File, bytes: Range<u64>) -> io::Result<Self> {
        let host = rustix::fs::fstatvfs(file)?;
        let meta = file.metadata()?;
        let is_all = bytes.start == 0 && bytes.end >= meta.len();
        let allocated = if is_all { meta.blocks().saturating_mul(ST_BLOCK) } else { data_in(file, bytes)? };
        let block = BLOCK_SIZE as u64;
        Ok(Self {
            allocated: allocated / block,
            available: host.f_bavail.saturating_mul(host.f_frsize) / block,
        })
    }

    /// Of two files that may be on one host file system.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            allocated: self.allocated.saturating_add(other.allocated),
            available: self.available.min(other.available),
        }
    }
}
