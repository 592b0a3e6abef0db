//! A device that is a range of another one, with a separate write cache.
use segno_device::{BlockDevice, MemDevice, check_bounds};
use segno_format::Block;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A device whose ranges can be flushed one by one.
pub trait FlushRegion: BlockDevice {
    /// Like [`BlockDevice::flush`], for writes to these blocks. Writes to other blocks may stay in flight.
    fn flush_region(&self, blocks: Range<u64>) -> io::Result<()>;
}

impl FlushRegion for MemDevice {
    /// Nothing is ever in flight.
    fn flush_region(&self, _blocks: Range<u64>) -> io::Result<()> {
        self.flush()
    }
}

/// A range of a device. Its flush covers that range only, as that of a separate device does.
pub struct Window {
    device: Arc<dyn FlushRegion>,
    blocks: Range<u64>,
}

impl Window {
    /// The range must lie inside the device.
    pub fn new(device: Arc<dyn FlushRegion>, blocks: Range<u64>) -> io::Result<Self> {
        let count = blocks.end.checked_sub(blocks.start).ok_or(io::ErrorKind::InvalidInput)?;
        check_bounds(device.block_count(), blocks.start, count)?;
        Ok(Self { device, blocks })
    }

    /// The address on the device of an access that lies inside the range.
    fn place(&self, addr: u64, count: u64) -> io::Result<u64> {
        check_bounds(self.block_count(), addr, count)?;
        Ok(self.blocks.start.saturating_add(addr))
    }
}

impl BlockDevice for Window {
    fn block_count(&self) -> u64 {
        self.blocks.end.saturating_sub(self.blocks.start)
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.device.read(self.place(addr, into.len() as u64)?, into)
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.device.write(self.place(addr, blocks.len() as u64)?, blocks)
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.device.write_fua(self.place(addr, blocks.len() as u64)?, blocks)
    }

    fn flush(&self) -> io::Result<()> {
        self.device.flush_region(self.blocks.clone())
    }

    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.device.discard(self.place(addr, count)?, count)
    }

    fn read_only(&self) -> bool {
        self.device.read_only()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{compare_with_array, read, write};
    use crate::{CountDevice, Event, Fault, FaultCall, FaultDevice, FaultError, RecordDevice};

    #[test]
    fn an_access_reaches_the_range_and_nothing_outside() {
        let whole = Arc::new(MemDevice::new(30));
        write(&*whole, 0, &[9; 30]);
        whole.discard(5, 20).unwrap();
        let window = Window::new(whole.clone(), 5..25).unwrap();
        compare_with_array(
            &window,
            &[(0, 1, 9, 1), (1, 5, 9, 2), (2, 3, 4, 0), (3, 0, 0, 0), (0, 19, 2, 1), (1, 20, 1, 1)],
        );
        assert_eq!((read(&*whole, 0, 5), read(&*whole, 25, 5)), (vec![9; 5], vec![9; 5]));
        assert!(Window::new(whole.clone(), 25..31).is_err());
        assert!(Window::new(whole, Range { start: 3, end: 2 }).is_err());
    }

    #[test]
    fn a_flush_covers_the_range_and_is_a_flush_to_those_who_count_and_fail_them() {
        let fault = Fault { call: FaultCall::Flush, nth: 1, error: FaultError::Io, lasting: false };
        let recorded = RecordDevice::new(MemDevice::new(8));
        let device = Arc::new(CountDevice::new(FaultDevice::new(recorded, vec![fault])));
        let [first, second] = [0..3, 3..8].map(|r| Window::new(device.clone(), r).unwrap());
        write(&second, 0, &[1]);
        second.flush().unwrap();
        first.flush().unwrap_err();
        first.flush().unwrap();
        assert_eq!(device.counts().flushes, 2);
        let log = device.inner().inner().log();
        assert!(matches!(log[0], Event::Write { addr: 3, .. }));
        assert_eq!(
            log[1..],
            [Event::Flush { covers: 1, within: 3..8 }, Event::Flush { covers: 2, within: 0..3 }]
        );
    }
}
