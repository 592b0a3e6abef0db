//! A part of a device that starts at any byte: a partition need not start at a multiple of 4 KiB.
use segno_device::{BlockDevice, check_bounds};
use segno_format::{BLOCK_SIZE, Block};
use std::io;
use zerocopy::IntoBytes;

/// A device from some byte on; it cannot be written.
pub struct Shifted<'a> {
    device: &'a dyn BlockDevice,
    blocks: u64,
    bytes: usize,
}

impl<'a> Shifted<'a> {
    /// `offset` is in bytes.
    #[must_use]
    pub fn new(device: &'a dyn BlockDevice, offset: u64) -> Self {
        Self { device, blocks: offset / BLOCK_SIZE as u64, bytes: (offset % BLOCK_SIZE as u64) as usize }
    }
}

impl BlockDevice for Shifted<'_> {
    fn block_count(&self) -> u64 {
        self.device.block_count().saturating_sub(self.blocks).saturating_sub(u64::from(self.bytes > 0))
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        check_bounds(self.block_count(), addr, into.len() as u64)?;
        let first = addr.saturating_add(self.blocks);
        if self.bytes == 0 {
            return self.device.read(first, into);
        }
        let mut whole = vec![Block::zeroed(); into.len() + 1];
        self.device.read(first, &mut whole)?;
        let bytes = whole.as_slice().as_bytes();
        let part = bytes.get(self.bytes..self.bytes + into.len() * BLOCK_SIZE).unwrap_or_default();
        into.as_mut_bytes().copy_from_slice(part);
        Ok(())
    }

    fn write(&self, _: u64, _: &[&Block]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn next_data(&self, addr: u64) -> u64 {
        let found = self.device.next_data(addr.saturating_add(self.blocks)).saturating_sub(self.blocks);
        // The last part of a block of this device is in the next block of the other one.
        found.saturating_sub((self.bytes > 0).into()).max(addr)
    }

    fn repeats_until(&self, addr: u64) -> u64 {
        let next = addr.saturating_add(1);
        let found = self.device.repeats_until(addr.saturating_add(self.blocks)).saturating_sub(self.blocks);
        // The last part of a block of this device is in the next block of the other one.
        found.saturating_sub((self.bytes > 0).into()).max(next)
    }

    fn read_only(&self) -> bool {
        true
    }
}
