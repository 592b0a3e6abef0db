//! Counts calls and blocks: a measure of performance that is free of noise.
use crate::window::FlushRegion;
use segno_device::{BlockDevice, Buffer, Reading};
use segno_format::Block;
use std::io;
use std::ops::{Range, Sub};
use std::sync::atomic::{AtomicU64, Ordering};

/// Successful calls and their blocks since the device was wrapped; a difference of two counts is that of the time between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub reads: u64,
    /// Excluding FUA writes.
    pub writes: u64,
    pub fua_writes: u64,
    pub flushes: u64,
    pub discards: u64,
    pub blocks_read: u64,
    /// Including FUA writes.
    pub blocks_written: u64,
    pub blocks_discarded: u64,
    pub prefetches: u64,
    pub blocks_prefetched: u64,
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            fua_writes: self.fua_writes - earlier.fua_writes,
            flushes: self.flushes - earlier.flushes,
            discards: self.discards - earlier.discards,
            blocks_read: self.blocks_read - earlier.blocks_read,
            blocks_written: self.blocks_written - earlier.blocks_written,
            blocks_discarded: self.blocks_discarded - earlier.blocks_discarded,
            prefetches: self.prefetches - earlier.prefetches,
            blocks_prefetched: self.blocks_prefetched - earlier.blocks_prefetched,
        }
    }
}

/// Forwards all calls and counts them.
#[derive(Debug, Default)]
pub struct CountDevice<D> {
    inner: D,
    reads: AtomicU64,
    writes: AtomicU64,
    fua_writes: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
    blocks_read: AtomicU64,
    blocks_written: AtomicU64,
    blocks_discarded: AtomicU64,
    prefetches: AtomicU64,
    blocks_prefetched: AtomicU64,
}

impl<D: BlockDevice> CountDevice<D> {
    pub fn new(inner: D) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            inner,
            reads: zero(),
            writes: zero(),
            fua_writes: zero(),
            flushes: zero(),
            discards: zero(),
            blocks_read: zero(),
            blocks_written: zero(),
            blocks_discarded: zero(),
            prefetches: zero(),
            blocks_prefetched: zero(),
        }
    }

    /// The wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The current counts.
    pub fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            reads: of(&self.reads),
            writes: of(&self.writes),
            fua_writes: of(&self.fua_writes),
            flushes: of(&self.flushes),
            discards: of(&self.discards),
            blocks_read: of(&self.blocks_read),
            blocks_written: of(&self.blocks_written),
            blocks_discarded: of(&self.blocks_discarded),
            prefetches: of(&self.prefetches),
            blocks_prefetched: of(&self.blocks_prefetched),
        }
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl<D: BlockDevice> BlockDevice for CountDevice<D> {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.inner.read(addr, into)?;
        add(&self.reads, 1);
        add(&self.blocks_read, into.len() as u64);
        Ok(())
    }

    fn start_read(&self, addr: u64, into: Buffer) -> Reading {
        add(&self.reads, 1);
        add(&self.blocks_read, into.blocks().len() as u64);
        self.inner.start_read(addr, into)
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.inner.write(addr, blocks)?;
        add(&self.writes, 1);
        add(&self.blocks_written, blocks.len() as u64);
        Ok(())
    }

    fn write_behind(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.inner.write_behind(addr, blocks)?;
        add(&self.writes, 1);
        add(&self.blocks_written, blocks.len() as u64);
        Ok(())
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.inner.write_fua(addr, blocks)?;
        add(&self.fua_writes, 1);
        add(&self.blocks_written, blocks.len() as u64);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.inner.flush()?;
        add(&self.flushes, 1);
        Ok(())
    }

    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.inner.discard(addr, count)?;
        add(&self.discards, 1);
        add(&self.blocks_discarded, count);
        Ok(())
    }

    fn prepare(&self, addr: u64, count: u64) -> io::Result<()> {
        self.inner.prepare(addr, count)
    }

    fn prefetch(&self, addr: u64, count: u64) {
        self.inner.prefetch(addr, count);
        add(&self.prefetches, 1);
        add(&self.blocks_prefetched, count);
    }

    fn next_data(&self, addr: u64) -> u64 {
        self.inner.next_data(addr)
    }

    fn read_only(&self) -> bool {
        self.inner.read_only()
    }
}

impl<D: FlushRegion> FlushRegion for CountDevice<D> {
    fn flush_region(&self, blocks: Range<u64>) -> io::Result<()> {
        self.inner.flush_region(blocks)?;
        add(&self.flushes, 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{compare_with_array, gathered, read, write, write_fua};
    use segno_device::MemDevice;

    #[test]
    fn what_succeeded_is_counted() {
        let device = CountDevice::new(MemDevice::new(20));
        write(&device, 0, &[1, 2, 3]);
        let before = device.counts();
        assert_eq!(before, Counts { writes: 1, blocks_written: 3, ..Counts::default() });
        write(&device, 0, &[1; 4]);
        write_fua(&device, 0, &[1; 5]);
        read(&device, 0, 2);
        read(&device, 0, 5);
        read(&device, 1, 0);
        drop(device.start_read(1, Buffer::new(6)));
        device.flush().unwrap();
        device.discard(0, 11).unwrap();
        device.prefetch(2, 6);
        gathered(&[1], |b| device.write(20, b)).unwrap_err();
        let expected = Counts {
            reads: 4,
            writes: 1,
            fua_writes: 1,
            flushes: 1,
            discards: 1,
            blocks_read: 13,
            blocks_written: 9,
            blocks_discarded: 11,
            prefetches: 1,
            blocks_prefetched: 6,
        };
        assert_eq!(device.counts() - before, expected);
    }

    #[test]
    fn passes_everything_on() {
        compare_with_array(
            &CountDevice::new(MemDevice::new(20)),
            &[(0, 1, 9, 1), (1, 5, 9, 2), (2, 3, 4, 0), (3, 0, 0, 0), (0, 19, 2, 1)],
        );
    }
}
