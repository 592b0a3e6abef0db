//! Type and size of the storage at a path.
use crate::DeviceError;
use crate::location::{Extents, Location};
use crate::storage_kind::{StorageKind, kind, kind_of};
use rustix::fs::ioctl_blksszget;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

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

/// Reads type and size of a location without excluding others or changing the storage.
pub fn probe(path: &Path) -> Result<Probe, DeviceError> {
    let Extents { file, ranges } = Location::of(path).extents()?;
    // The kind is looked at first because opening a FIFO would block.
    kind(&file)?;
    let file = File::open(&file).map_err(|e| DeviceError::io("open", path, e))?;
    let whole = probe_file(path, &file)?;
    let bytes = ranges.iter().map(|bytes| whole.part(bytes).bytes).fold(0, u64::saturating_add);
    Ok(Probe { bytes, ..whole })
}

impl Probe {
    /// The probe of a part of the device.
    pub(crate) fn part(self, bytes: &Range<u64>) -> Self {
        Self { bytes: bytes.end.min(self.bytes).saturating_sub(bytes.start), ..self }
    }
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

fn probe_block_device(mut file: &File) -> io::Result<Probe> {
    let bytes = file.seek(SeekFrom::End(0))?;
    Ok(Probe { kind: StorageKind::BlockDevice, bytes, sector_size: ioctl_blksszget(file)? })
}
