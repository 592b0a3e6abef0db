//! A device that counts steps, so that an endless loop ends in an error, and notices accesses outside of it.
use segno_device::{BlockDevice, MemDevice};
use segno_format::Block;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The device.
pub struct Guard {
    inner: MemDevice,
    /// Blocks that may still be read or written.
    remaining: AtomicU64,
    write_outside: AtomicBool,
    writes: AtomicU64,
}

impl Guard {
    pub fn new(inner: MemDevice, steps: u64) -> Self {
        Self {
            inner,
            remaining: AtomicU64::new(steps),
            write_outside: AtomicBool::new(false),
            writes: AtomicU64::new(0),
        }
    }

    /// Resets the counts.
    pub fn allow(&self, steps: u64) {
        self.remaining.store(steps, Ordering::Relaxed);
    }

    /// Writes and discards so far.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Accesses that no damage may cause.
    pub fn verdict(&self) -> Result<(), String> {
        if self.write_outside.load(Ordering::Relaxed) {
            return Err("a write outside the device".into());
        }
        if self.remaining.load(Ordering::Relaxed) == 0 {
            return Err("too many device accesses: an endless loop".into());
        }
        Ok(())
    }

    fn step(&self, blocks: usize) -> io::Result<()> {
        let cost = blocks as u64 + 1;
        let before = self
            .remaining
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |l| Some(l.saturating_sub(cost)));
        match before {
            Ok(remaining) if remaining > cost => Ok(()),
            _ => Err(io::Error::other("no steps left")),
        }
    }

    fn note_write(&self, addr: u64, blocks: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        if addr.checked_add(blocks).is_none_or(|end| end > self.inner.block_count()) {
            self.write_outside.store(true, Ordering::Relaxed);
        }
    }
}

impl BlockDevice for Guard {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.step(into.len())?;
        self.inner.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.step(blocks.len())?;
        self.note_write(addr, blocks.len() as u64);
        self.inner.write(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.step(blocks.len())?;
        self.note_write(addr, blocks.len() as u64);
        self.inner.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.step(0)
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.step(0)?;
        self.note_write(addr, count);
        self.inner.discard(addr, count)
    }
    fn read_only(&self) -> bool {
        false
    }
}
