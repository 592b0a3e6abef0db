//! Android sparse images, read in place.
use crate::exclusion::{LockedFile, Use, exclude};
use crate::{BlockDevice, DeviceError, FileDevice, OpenOptions, bounds, probe};
use segno_format::{BLOCK_SIZE, Block};
use segno_sparse::Index;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// A sparse image as the device that it stands for. It cannot be written.
struct SparseDevice {
    file: LockedFile,
    index: Index,
}

/// Opens a file or block device, or, for reading, the image in a sparse file.
pub fn open_storage(path: &Path, options: OpenOptions) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    // Opening anything else, such as a FIFO, could block.
    if probe::kind(path)? == probe::StorageKind::Regular {
        let failed = |e| DeviceError::io("open", path, e);
        // A file that is not to be read fails below, with the reason.
        if let Some(file) = File::open(path).ok()
            && Index::is_sparse(&file).map_err(failed)?
        {
            return Ok(Arc::new(SparseDevice::open(path, file, options)?));
        }
    }
    Ok(Arc::new(FileDevice::open(path, options)?))
}

impl SparseDevice {
    fn open(path: &Path, file: File, options: OpenOptions) -> Result<Self, DeviceError> {
        if !options.read_only {
            return Err(DeviceError::Sparse { path: path.display().to_string() });
        }
        let file = LockedFile(file);
        exclude(path, &file, Use::Read)?;
        let index = Index::read(&file).map_err(|e| DeviceError::io("open", path, e.into()))?;
        Ok(Self { file, index })
    }
}

impl BlockDevice for SparseDevice {
    fn block_count(&self) -> u64 {
        self.index.size / BLOCK_SIZE as u64
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        bounds::check(self.block_count(), addr, into.len() as u64)?;
        self.index.read_at(&self.file, into.as_mut_bytes(), addr.saturating_mul(BLOCK_SIZE as u64))
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
        let block = BLOCK_SIZE as u64;
        let found = self.index.next_data(addr.saturating_mul(block));
        found.map_or(self.block_count(), |byte| byte / block).max(addr)
    }

    fn repeats_until(&self, addr: u64) -> u64 {
        let block = BLOCK_SIZE as u64;
        let end = self.index.fill_end(addr.saturating_mul(block));
        end.map_or(0, |byte| byte / block).max(addr.saturating_add(1))
    }

    fn read_only(&self) -> bool {
        true
    }
}
