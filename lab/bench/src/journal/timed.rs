//! A volume in this process that times each operation, with separate figures during checkpoints.
use crate::Histogram;
use crate::work::fs::{File, Fs, InProcess};
use anyhow::Result;
use segno_engine::Volume;
use segno_engine::lab::Probe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Nanoseconds of operations.
#[derive(Debug, Default)]
pub struct Times {
    pub all: Histogram,
    /// Operations that overlap with a checkpoint.
    pub applying: Histogram,
    /// Number of them.
    pub calls: Arc<AtomicU64>,
}

/// The volume.
pub struct Timed {
    inner: InProcess,
    watch: Watch,
}

#[derive(Clone)]
struct Watch {
    volume: Arc<Volume>,
    times: Arc<Times>,
}

struct WatchedFile {
    inner: Box<dyn File>,
    watch: Watch,
}

impl Watch {
    fn time<T>(&self, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        let count = || self.volume.stats().checkpoints.load(Ordering::Relaxed);
        let (before, running) = (count(), Probe(&self.volume).is_checkpointing());
        let begun = Instant::now();
        let done = operation()?;
        let took = begun.elapsed().as_nanos() as u64;
        self.times.all.record(took);
        self.times.calls.fetch_add(1, Ordering::Relaxed);
        if running || Probe(&self.volume).is_checkpointing() || count() != before {
            self.times.applying.record(took);
        }
        Ok(done)
    }

    fn file(&self, inner: Box<dyn File>) -> Box<dyn File> {
        Box::new(WatchedFile { inner, watch: self.clone() })
    }
}

impl Timed {
    pub fn new(volume: Arc<Volume>) -> Self {
        let inner = InProcess::new(volume.clone());
        Self { inner, watch: Watch { volume, times: Arc::default() } }
    }

    /// The figures since the last call.
    pub fn times(&mut self) -> Arc<Times> {
        std::mem::take(&mut self.watch.times)
    }

    /// Number of calls since the last call of `times`.
    pub fn calls(&self) -> Arc<AtomicU64> {
        self.watch.times.calls.clone()
    }
}

impl Fs for Timed {
    fn mkdir(&self, name: &str) -> Result<()> {
        self.watch.time(|| self.inner.mkdir(name))
    }
    fn rmdir(&self, name: &str) -> Result<()> {
        self.watch.time(|| self.inner.rmdir(name))
    }
    fn create(&self, name: &str) -> Result<Box<dyn File>> {
        Ok(self.watch.file(self.watch.time(|| self.inner.create(name))?))
    }
    fn open(&self, name: &str) -> Result<Box<dyn File>> {
        Ok(self.watch.file(self.watch.time(|| self.inner.open(name))?))
    }
    fn unlink(&self, name: &str) -> Result<()> {
        self.watch.time(|| self.inner.unlink(name))
    }
    fn stat(&self, name: &str) -> Result<u64> {
        self.watch.time(|| self.inner.stat(name))
    }
    fn list(&self, dir: &str) -> Result<usize> {
        self.inner.list(dir)
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
}

impl File for WatchedFile {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.watch.time(|| self.inner.read(offset, into))
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.watch.time(|| self.inner.write(offset, data))
    }
    fn size(&self) -> Result<u64> {
        self.inner.size()
    }
    fn fsync(&self) -> Result<()> {
        self.watch.time(|| self.inner.fsync())
    }
}
