//! Records an ordered log of everything that changes a device, for crash tests.
use crate::window::FlushRegion;
use parking_lot::Mutex;
use segno_device::BlockDevice;
use segno_format::{BLOCK_SIZE, Block};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// One entry of the log. Failed calls are not logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Logged after the write returned.
    Write {
        addr: u64,
        blocks: Vec<Arc<[u8; BLOCK_SIZE]>>,
        fua: bool,
    },
    /// Logged after the flush returned. Of the first `covers` events of the log, which were logged before it started, it
    /// made durable those `within` this range of blocks.
    Flush {
        covers: usize,
        within: Range<u64>,
    },
    Discard {
        addr: u64,
        count: u64,
    },
    /// Inserted by the test, such as "fsync of a returned".
    Mark(String),
}

/// Forwards all calls and records the log.
#[derive(Debug)]
pub struct RecordDevice<D> {
    inner: D,
    log: Mutex<Vec<Event>>,
}

impl<D: BlockDevice> RecordDevice<D> {
    pub fn new(inner: D) -> Self {
        Self { inner, log: Mutex::new(Vec::new()) }
    }

    /// The wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Appends a mark to the log.
    pub fn mark(&self, text: impl Into<String>) {
        self.append(Event::Mark(text.into()));
    }

    /// The log so far; blocks are shared, not copied.
    pub fn log(&self) -> Vec<Event> {
        self.log.lock().clone()
    }

    fn append(&self, event: Event) {
        self.log.lock().push(event);
    }

    fn append_write(&self, addr: u64, blocks: &[&Block], fua: bool) {
        let blocks = blocks.iter().map(|b| Arc::new(b.0)).collect();
        self.append(Event::Write { addr, blocks, fua });
    }
}

impl<D: BlockDevice> BlockDevice for RecordDevice<D> {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.inner.read(addr, into)
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.inner.write(addr, blocks)?;
        self.append_write(addr, blocks, false);
        Ok(())
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.inner.write_fua(addr, blocks)?;
        self.append_write(addr, blocks, true);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.flush_region(0..self.block_count())
    }

    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.inner.discard(addr, count)?;
        self.append(Event::Discard { addr, count });
        Ok(())
    }

    fn read_only(&self) -> bool {
        self.inner.read_only()
    }
}

impl<D: BlockDevice> FlushRegion for RecordDevice<D> {
    fn flush_region(&self, within: Range<u64>) -> io::Result<()> {
        let covers = self.log.lock().len();
        self.inner.flush()?;
        self.append(Event::Flush { covers, within });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{compare_with_array, gathered, read, write, write_fua};
    use segno_device::MemDevice;

    #[test]
    fn everything_that_changes_the_device_is_logged_in_order() {
        let device = RecordDevice::new(MemDevice::new(10));
        write(&device, 1, &[1, 2]);
        device.flush().unwrap();
        device.mark("synced");
        write_fua(&device, 3, &[3]);
        device.discard(1, 2).unwrap();
        assert_eq!(read(&device, 1, 3), [0, 0, 3]);
        let shared = |fill| Arc::new([fill; BLOCK_SIZE]);
        let expected = [
            Event::Write { addr: 1, blocks: vec![shared(1), shared(2)], fua: false },
            Event::Flush { covers: 1, within: 0..10 },
            Event::Mark("synced".into()),
            Event::Write { addr: 3, blocks: vec![shared(3)], fua: true },
            Event::Discard { addr: 1, count: 2 },
        ];
        assert!(device.log() == expected, "{:?}", device.log().len());
    }

    #[test]
    fn what_failed_is_not_logged() {
        let device = RecordDevice::new(MemDevice::new(1));
        gathered(&[1, 2], |b| device.write(0, b)).unwrap_err();
        gathered(&[1, 2], |b| device.write_fua(0, b)).unwrap_err();
        device.discard(0, 2).unwrap_err();
        assert!(device.log().is_empty());
    }

    /// A device that receives writes while it flushes.
    struct WriteInFlush(MemDevice, std::sync::OnceLock<std::sync::Weak<RecordDevice<WriteInFlush>>>);
    impl BlockDevice for WriteInFlush {
        fn block_count(&self) -> u64 {
            self.0.block_count()
        }
        fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
            self.0.read(addr, into)
        }
        fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
            self.0.write(addr, blocks)
        }
        fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
            self.0.write_fua(addr, blocks)
        }
        fn flush(&self) -> io::Result<()> {
            write(&*self.1.get().unwrap().upgrade().unwrap(), 2, &[2]);
            Ok(())
        }
        fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
            self.0.discard(addr, count)
        }
        fn read_only(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_flush_covers_only_what_had_returned_when_it_began() {
        let device =
            Arc::new(RecordDevice::new(WriteInFlush(MemDevice::new(10), std::sync::OnceLock::new())));
        device.inner().1.set(Arc::downgrade(&device)).unwrap();
        write(&*device, 1, &[1]);
        device.flush().unwrap();
        assert!(matches!(
            device.log()[..],
            [_, Event::Write { addr: 2, .. }, Event::Flush { covers: 1, .. }]
        ));
    }

    #[test]
    fn passes_everything_on() {
        compare_with_array(
            &RecordDevice::new(MemDevice::new(20)),
            &[(0, 1, 9, 1), (1, 5, 9, 2), (2, 3, 4, 0), (3, 0, 0, 0), (0, 19, 2, 1)],
        );
    }
}
