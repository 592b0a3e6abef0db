//! Consecutive blocks of a device, as a device.
use crate::{BlockDevice, Buffer, Reading, bounds};
use segno_format::Block;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A part of a device. It is not zoned, even if the device is.
pub struct WindowDevice {
    device: Arc<dyn BlockDevice>,
    blocks: Range<u64>,
}

impl WindowDevice {
    /// The window that begins at a block. It must lie inside the device, which must not be zoned.
    pub fn new(device: Arc<dyn BlockDevice>, start: u64, count: u64) -> io::Result<Self> {
        bounds::check(device.block_count(), start, count)?;
        if !device.zones()?.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a zoned device is used as a whole: its zones have an order of writes that a part does not show",
            ));
        }
        Ok(Self { device, blocks: start..start.saturating_add(count) })
    }

    /// The address on the device.
    fn at(&self, addr: u64, count: u64) -> io::Result<u64> {
        bounds::check(self.block_count(), addr, count)?;
        Ok(self.blocks.start.saturating_add(addr))
    }

    /// An address of the device as one of the window, not before `addr`.
    fn in_window(&self, found: u64, addr: u64) -> u64 {
        found.min(self.blocks.end).saturating_sub(self.blocks.start).max(addr)
    }
}

impl BlockDevice for WindowDevice {
    fn block_count(&self) -> u64 {
        self.blocks.end.saturating_sub(self.blocks.start)
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.device.read(self.at(addr, into.len() as u64)?, into)
    }

    fn start_read(&self, addr: u64, into: Buffer) -> Reading {
        match self.at(addr, into.blocks().len() as u64) {
            Ok(at) => self.device.start_read(at, into),
            Err(e) => Reading::at_once(into, |_| Err(e)),
        }
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.device.write(self.at(addr, blocks.len() as u64)?, blocks)
    }

    fn write_behind(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.device.write_behind(self.at(addr, blocks.len() as u64)?, blocks)
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.device.write_fua(self.at(addr, blocks.len() as u64)?, blocks)
    }

    fn flush(&self) -> io::Result<()> {
        self.device.flush()
    }

    fn drain(&self) -> io::Result<()> {
        self.device.drain()
    }

    fn keeps_order(&self) -> bool {
        self.device.keeps_order()
    }

    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.device.discard(self.at(addr, count)?, count)
    }

    fn prepare(&self, addr: u64, count: u64) -> io::Result<()> {
        self.device.prepare(self.at(addr, count)?, count)
    }

    fn prefetch(&self, addr: u64, count: u64) {
        if let Ok(at) = self.at(addr, count) {
            self.device.prefetch(at, count);
        }
    }

    fn next_data(&self, addr: u64) -> u64 {
        self.in_window(self.device.next_data(self.blocks.start.saturating_add(addr)), addr)
    }

    fn repeats_until(&self, addr: u64) -> u64 {
        let end = self.device.repeats_until(self.blocks.start.saturating_add(addr));
        self.in_window(end, addr.saturating_add(1))
    }

    fn is_preallocated(&self) -> bool {
        self.device.is_preallocated()
    }

    fn read_only(&self) -> bool {
        self.device.read_only()
    }
}
