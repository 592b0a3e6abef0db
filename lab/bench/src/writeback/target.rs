//! Storage of the volumes: a disk, memory, or a latency model in memory.
use super::case::Outcome;
use crate::place::Place;
use anyhow::Result;
use segno_device::{BlockDevice, MemDevice};
use segno_format::{BLOCK_SIZE, Block};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::{CountDevice, ModelDevice, Speed};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Blocks of a piece into which `Split` cuts a write: 128 KiB.
const PIECE: usize = 32;
const MIB: f64 = 1_048_576.0;

/// Eight channels of 25 MiB/s: slow enough for this program to keep all of them busy on two processors.
pub const MODEL: Speed = Speed { channels: 8, latency: Duration::from_micros(200), bytes_per_s: 25 << 20 };

/// Storage of volumes.
pub enum Target<'a> {
    Real(&'a Place),
    /// Zeros are not stored: volumes may be larger than the machine's memory.
    Memory,
    Model,
}

pub type Counted = CountDevice<Arc<dyn BlockDevice>>;

impl Target<'_> {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Real(_) => "real",
            Self::Memory => "memory",
            Self::Model => "model of 8 channels, 25 MiB/s and 200 us each",
        }
    }

    /// Byte that writers write: zeros are not stored in memory.
    pub fn pattern(&self) -> u8 {
        if matches!(self, Self::Real(_)) { 0xa5 } else { 0 }
    }

    fn device(&self, bytes: u64) -> Result<Arc<dyn BlockDevice>> {
        let memory = || MemDevice::new(bytes / BLOCK_SIZE as u64);
        Ok(match self {
            Self::Real(place) => place.device()?,
            Self::Memory => Arc::new(memory()),
            Self::Model => Arc::new(ModelDevice::new(memory(), MODEL)),
        })
    }

    /// A fresh volume that counts what is written to it. `split` serves one write by several threads.
    pub fn format(&self, bytes: u64, split: bool) -> Result<(Arc<Counted>, String)> {
        let mut device = self.device(bytes)?;
        if split {
            device = Arc::new(Split(device));
        }
        let device = Arc::new(CountDevice::new(device));
        let options = MkfsOptions::default();
        let member = Member { device: device.clone(), path: String::new(), zeroed: true };
        let report = segno_mkfs::format(&[member], &options)?;
        Ok((device, format!("{options:#?}\n{report:#?}")))
    }

    /// Writes sequentially, `blocks` blocks at a time, in equal parts on several threads, and flushes once.
    pub fn raw(&self, volume: u64, bytes: u64, blocks: usize, threads: u64) -> Result<Outcome> {
        let device = self.device(volume)?;
        let block = Block([self.pattern(); BLOCK_SIZE]);
        let part = (bytes / BLOCK_SIZE as u64 / threads).next_multiple_of(blocks as u64);
        let begun = Instant::now();
        thread::scope(|s| {
            let run = |t: u64| {
                let (device, refs) = (&device, vec![&block; blocks]);
                s.spawn(move || {
                    (t * part..(t + 1) * part).step_by(blocks).try_for_each(|at| device.write(at, &refs))
                })
            };
            let threads: Vec<_> = (0..threads).map(run).collect();
            let mut each =
                threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())));
            each.try_for_each(|r| r)
        })?;
        device.flush()?;
        let mib = (part * threads * BLOCK_SIZE as u64) as f64 / MIB;
        Ok(Outcome { mib, seconds: begun.elapsed().as_secs_f64(), ..Outcome::default() })
    }
}

/// Gives one context the queue depth of many: splits a write into pieces that are written in parallel.
struct Split(Arc<dyn BlockDevice>);

impl BlockDevice for Split {
    fn block_count(&self) -> u64 {
        self.0.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.0.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        if blocks.len() <= PIECE {
            return self.0.write(addr, blocks);
        }
        thread::scope(|s| {
            let pieces = (addr..).step_by(PIECE).zip(blocks.chunks(PIECE));
            let running: Vec<_> =
                pieces.map(|(at, piece)| s.spawn(move || self.0.write(at, piece))).collect();
            let each =
                running.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())));
            each.fold(Ok(()), io::Result::and)
        })
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.0.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.0.discard(addr, count)
    }
    fn read_only(&self) -> bool {
        self.0.read_only()
    }
}
