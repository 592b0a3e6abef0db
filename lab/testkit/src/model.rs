//! A latency model of a device with parallel channels.
use segno_device::BlockDevice;
use segno_format::{BLOCK_SIZE, Block};
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// Speed of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Requests served at the same time; further ones wait.
    pub channels: usize,
    /// Fixed time for each request.
    pub latency: Duration,
    /// Bandwidth of one channel.
    pub bytes_per_s: u64,
}

/// Forwards all calls with a delay: a request occupies one channel for the latency plus the time of its bytes. A flush takes
/// the latency and occupies no channel.
#[derive(Debug)]
pub struct ModelDevice<D> {
    inner: D,
    speed: Speed,
    free: Mutex<usize>,
    freed: Condvar,
}

impl<D> ModelDevice<D> {
    pub fn new(inner: D, speed: Speed) -> Self {
        Self { inner, speed, free: Mutex::new(speed.channels.max(1)), freed: Condvar::new() }
    }

    fn occupy(&self, blocks: usize) {
        let bytes = blocks as f64 * BLOCK_SIZE as f64;
        let time = self.speed.latency.as_secs_f64() + bytes / self.speed.bytes_per_s.max(1) as f64;
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        drop(free);
        sleep(Duration::from_secs_f64(time));
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.freed.notify_one();
    }
}

impl<D: BlockDevice> BlockDevice for ModelDevice<D> {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.occupy(into.len());
        self.inner.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.occupy(blocks.len());
        self.inner.write(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.occupy(blocks.len());
        self.inner.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        sleep(self.speed.latency);
        self.inner.flush()
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.inner.discard(addr, count)
    }
    fn prepare(&self, addr: u64, count: u64) -> io::Result<()> {
        self.inner.prepare(addr, count)
    }
    fn read_only(&self) -> bool {
        self.inner.read_only()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::MemDevice;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn what_is_written_is_there() {
        let model = ModelDevice::new(
            MemDevice::new(16),
            Speed { channels: 2, latency: Duration::ZERO, bytes_per_s: u64::MAX },
        );
        model.write(3, &[&Block([7; BLOCK_SIZE])]).unwrap();
        let mut back = [Block::zeroed()];
        model.read(3, &mut back).unwrap();
        assert_eq!(back[0].0, [7; BLOCK_SIZE]);
        assert!(model.write(16, &[&back[0]]).is_err());
    }

    #[test]
    fn all_requests_are_served_however_few_channels_there_are() {
        let model = ModelDevice::new(
            MemDevice::new(64),
            Speed { channels: 2, latency: Duration::from_millis(1), bytes_per_s: u64::MAX },
        );
        let served = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for addr in 0..16 {
                let (model, served) = (&model, &served);
                s.spawn(move || {
                    model.write(addr, &[&Block([addr as u8 + 1; BLOCK_SIZE])]).unwrap();
                    served.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(served.load(Ordering::Relaxed), 16);
        assert_eq!(*model.free.lock().unwrap(), 2, "every channel is free again");
    }
}
