//! A device whose writes and reads sometimes take long, so that threads meet in other orders.
use segno_device::{BlockDevice, Zone, ZoneLimits};
use segno_format::Block;
use segno_testkit::{Rng, ZonedDevice};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A pause follows one command in so many.
const EVERY: u64 = 8;

/// Pauses of a drawn length up to `most` before some commands.
pub struct Pauses {
    inner: Arc<ZonedDevice>,
    most: Duration,
    rng: Mutex<Rng>,
}

impl Pauses {
    pub fn new(inner: Arc<ZonedDevice>, most: Duration, seed: u64) -> Self {
        Self { inner, most, rng: Mutex::new(Rng::new(seed)) }
    }

    fn pause(&self) {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let length = self.most.mul_f64(rng.unit());
        let pauses = rng.one_in(EVERY);
        drop(rng);
        if pauses {
            std::thread::sleep(length);
        }
    }
}

impl BlockDevice for Pauses {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.pause();
        self.inner.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.pause();
        self.inner.write(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.pause();
        self.inner.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.pause();
        self.inner.flush()
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.inner.discard(addr, count)
    }
    fn read_only(&self) -> bool {
        self.inner.read_only()
    }
    fn zones(&self) -> io::Result<Vec<Zone>> {
        self.inner.zones()
    }
    fn zone_limits(&self) -> ZoneLimits {
        self.inner.zone_limits()
    }
    fn reset_zone(&self, start: u64) -> io::Result<()> {
        self.inner.reset_zone(start)
    }
    fn finish_zone(&self, start: u64) -> io::Result<()> {
        self.inner.finish_zone(start)
    }
}
