//! Android sparse images, read in place.
use crate::exclusion::{LockedFile, Use, exclude};
use crate::location::{Extents, Location, Partition, Table, WHOLE};
use crate::storage_kind::{StorageKind, kind};
use crate::{BlockDevice, DeviceError, FileDevice, MultiDevice, OpenOptions, bounds};
use segno_format::{BLOCK_SIZE, Block};
use segno_sparse::Index;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// The raw image of a sparse image, as a read-only device.
struct SparseDevice {
    file: LockedFile,
    index: Index,
    /// The bytes of the image that the device has.
    bytes: Range<u64>,
}

/// Opens a file or block device, a part of one, or, for reading, the image in a sparse file. [`Location`]
/// describes the names of parts.
pub fn open_storage(path: &Path, options: OpenOptions) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    open_for(path, options, options.into())
}

/// Opens storage as [`open_storage`] does, for reading and without a lock. The content may change at any
/// time, and the caller must be able to detect that.
pub fn observe_storage(path: &Path) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    open_for(path, OpenOptions { read_only: true, direct: false }, Use::Observe)
}

/// Like [`observe_storage`], of an entry of the table of a file.
pub fn observe_partition(
    file: &Path,
    table: &Table,
    partition: &Partition,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let options = OpenOptions { read_only: true, direct: false };
    joined(file, &Extents::of_partition(file, table, partition)?, options, Use::Observe)
}

fn open_for(path: &Path, options: OpenOptions, usage: Use) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    joined(path, &Location::of(path).extents()?, options, usage)
}

/// The ranges of a location as one device.
fn joined(
    path: &Path,
    extents: &Extents,
    options: OpenOptions,
    usage: Use,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let open = |bytes: &Range<u64>| open_bytes(path, (&extents.file, bytes), options, usage);
    if let [bytes] = extents.ranges.as_slice() {
        return open(bytes);
    }
    let piece = |bytes| open(bytes).map(|device| (device.clone(), device.block_count()));
    let pieces = extents.ranges.iter().map(piece).collect::<Result<_, _>>()?;
    let joined = MultiDevice::new(pieces).map_err(|e| DeviceError::io("join the pieces of", path, e))?;
    Ok(Arc::new(joined))
}

fn open_bytes(
    path: &Path,
    (of, bytes): (&Path, &Range<u64>),
    options: OpenOptions,
    usage: Use,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    // Opening anything else, such as a FIFO, could block.
    if kind(of)? == StorageKind::Regular {
        let failed = |e| DeviceError::io("open", path, e);
        // A file that is not to be read fails below, with the reason.
        if let Some(file) = File::open(of).ok()
            && Index::is_sparse(&file).map_err(failed)?
        {
            return Ok(Arc::new(SparseDevice::open(path, (file, bytes), options, usage)?));
        }
    }
    Ok(Arc::new(FileDevice::open_bytes(path, (of, bytes.clone()), options, usage)?))
}

impl SparseDevice {
    fn open(
        path: &Path,
        (file, bytes): (File, &Range<u64>),
        options: OpenOptions,
        usage: Use,
    ) -> Result<Self, DeviceError> {
        if !options.read_only {
            return Err(DeviceError::Sparse { path: path.display().to_string() });
        }
        let file = LockedFile(file);
        // The whole file is locked, because only the index has the places of the bytes.
        exclude(path, &file, &WHOLE, usage)?;
        let index = Index::read(&file).map_err(|e| DeviceError::io("open", path, e.into()))?;
        let bytes = bytes.start..bytes.end.min(index.size);
        Ok(Self { file, index, bytes })
    }

    /// Byte of the image that a block begins with.
    fn at(&self, addr: u64) -> u64 {
        self.bytes.start.saturating_add(addr.saturating_mul(BLOCK_SIZE as u64))
    }

    /// The block in which a byte of the image is.
    fn block_of(&self, byte: u64) -> u64 {
        byte.saturating_sub(self.bytes.start) / BLOCK_SIZE as u64
    }
}

impl BlockDevice for SparseDevice {
    fn block_count(&self) -> u64 {
        self.bytes.end.saturating_sub(self.bytes.start) / BLOCK_SIZE as u64
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        bounds::check(self.block_count(), addr, into.len() as u64)?;
        self.index.read_at(&self.file, into.as_mut_bytes(), self.at(addr))
    }

    fn write(&self, _addr: u64, _blocks: &[&Block]) -> io::Result<()> {
        bounds::check_writable(true)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _addr: u64, _count: u64) -> io::Result<()> {
        bounds::check_writable(true)
    }

    fn next_data(&self, addr: u64) -> u64 {
        let found = self.index.next_data(self.at(addr)).map(|byte| self.block_of(byte));
        found.unwrap_or(self.block_count()).min(self.block_count()).max(addr)
    }

    fn repeats_until(&self, addr: u64) -> u64 {
        let end = self.index.fill_end(self.at(addr)).map(|byte| self.block_of(byte));
        end.unwrap_or(0).min(self.block_count()).max(addr.saturating_add(1))
    }

    fn read_only(&self) -> bool {
        true
    }
}
