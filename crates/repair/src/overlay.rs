//! A device in front of another one: reads fall through, writes stay in memory.
use parking_lot::{Mutex, RwLock};
use segno_check::CheckError;
use segno_device::{BlockDevice, check_bounds};
use segno_format::{BLOCK_SIZE, Block};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Lets a caller change a volume, or mount it, without a write to the device.
///
/// Blocks behind the end of the device cannot be written. Memory: 4 KiB for each block written.
pub struct Overlay {
    base: Arc<dyn BlockDevice>,
    written: RwLock<BTreeMap<u64, Arc<[u8; BLOCK_SIZE]>>>,
    /// The last read that failed.
    failed: Mutex<Option<CheckError>>,
}

impl Overlay {
    /// An overlay without writes.
    #[must_use]
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self { base, written: RwLock::default(), failed: Mutex::default() }
    }

    /// Addresses of the blocks that were written, ascending.
    #[must_use]
    pub fn written(&self) -> Vec<u64> {
        self.written.read().keys().copied().collect()
    }

    /// The last read that the device did not carry out.
    pub(crate) fn take_failed(&self) -> Option<CheckError> {
        self.failed.lock().take()
    }

    fn note(&self, addr: u64, count: usize, e: &io::Error) {
        let source = e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error);
        *self.failed.lock() = Some(CheckError::Io { addr, count, source });
    }
}

impl BlockDevice for Overlay {
    fn block_count(&self) -> u64 {
        self.base.block_count()
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.base.read(addr, into).inspect_err(|e| self.note(addr, into.len(), e))?;
        let written = self.written.read();
        let end = addr.saturating_add(into.len() as u64);
        for (&at, bytes) in written.range(addr..end) {
            if let Some(block) = into.get_mut((at - addr) as usize) {
                block.0 = **bytes;
            }
        }
        Ok(())
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        check_bounds(self.block_count(), addr, blocks.len() as u64)?;
        let mut written = self.written.write();
        written.extend((addr..).zip(blocks.iter().map(|b| Arc::new(b.0))));
        Ok(())
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.write(addr, blocks)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// Contents of discarded blocks may be anything, so they stay.
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        check_bounds(self.block_count(), addr, count)
    }

    fn read_only(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::MemDevice;
    use segno_testkit::blocks::{read, write};

    #[test]
    fn writes_stay_in_memory() {
        let base = Arc::new(MemDevice::new(8));
        write(&*base, 0, &[1, 2, 3, 4]);
        let overlay = Overlay::new(base.clone());
        write(&overlay, 1, &[9, 8]);
        overlay.discard(0, 1).unwrap();
        assert_eq!(read(&overlay, 0, 5), [1, 9, 8, 4, 0]);
        assert_eq!(read(&*base, 0, 5), [1, 2, 3, 4, 0]);
        assert_eq!(overlay.written(), [1, 2]);
        assert_eq!(overlay.write(8, &[&Block::zeroed()]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
