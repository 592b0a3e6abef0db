//! One workload on a fresh volume.
use super::raw::{self, Raw};
use super::simulated_store::{Conditions, SimulatedStore};
use crate::work::fs::{Fs, InProcess};
use anyhow::{Result, bail};
use object_store::path::Path;
use segno_device::BlockDevice;
use segno_engine::{MountOptions, Volume};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG};
use segno_mkfs::{Member, MkfsOptions, format, plan};
use segno_store::{Cause, Count, Geometry, Options, StoreDevice};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Segments of a zone: 32 MiB, as `segno mkfs` makes them.
const ZONE_SEGMENTS: u32 = 16;
const ZONES: u32 = 128;
const MIB: f64 = 1_048_576.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Fsync { threads: u64 },
    Write,
    Read,
    SmallFiles,
    Mount,
}

/// How much each workload does.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub fsyncs: u64,
    pub bytes: u64,
    pub files: u64,
}

/// What one round found.
#[derive(Clone, Debug)]
pub struct Found {
    pub value: f64,
    pub raw: f64,
    pub user_bytes: u64,
    pub engine_bytes: u64,
    pub counts: Vec<(Cause, Count)>,
}

impl Work {
    pub const ALL: [Self; 6] = [
        Self::Fsync { threads: 1 },
        Self::Fsync { threads: 16 },
        Self::Write,
        Self::Read,
        Self::SmallFiles,
        Self::Mount,
    ];

    pub fn name(self) -> String {
        match self {
            Self::Fsync { threads } => format!("fsync 4 KiB, threads: {threads}"),
            Self::Write => "sequential write".into(),
            Self::Read => "sequential read".into(),
            Self::SmallFiles => "small files of 4 KiB".into(),
            Self::Mount => "mount".into(),
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Self::Fsync { threads: 1 } => "ms (median)",
            Self::Fsync { .. } => "fsyncs/s",
            Self::Write | Self::Read => "MiB/s",
            Self::SmallFiles => "files/s",
            Self::Mount => "ms",
        }
    }

    /// What the same costs on the store alone: a PUT, or as many as threads, or a stream of large objects.
    fn raw(self, raw: &Raw) -> f64 {
        let put = raw.put.as_secs_f64();
        match self {
            Self::Fsync { threads: 1 } | Self::Mount => put * 1e3,
            Self::Fsync { .. } => 1.0 / put,
            Self::Write => raw.write_mib_per_s,
            Self::Read => raw.read_mib_per_s,
            Self::SmallFiles => raw.write_mib_per_s * MIB / BLOCK_SIZE as f64,
        }
    }
}

/// An open device and the store below it.
struct Rig {
    store: Arc<SimulatedStore>,
    device: Arc<StoreDevice>,
}

impl Rig {
    fn format(conditions: Conditions, seed: u64) -> Result<Self> {
        let store = Arc::new(SimulatedStore::new(conditions, seed));
        let zone_blocks = ZONE_SEGMENTS * BLOCKS_PER_SEG;
        let options = MkfsOptions {
            segs_per_sec: ZONE_SEGMENTS,
            secs_per_zone: 1,
            zoned: true,
            ..MkfsOptions::default()
        };
        let layout =
            plan(&[u64::from(ZONES * zone_blocks)], &MkfsOptions { zoned: false, ..options.clone() })?;
        let geometry = Geometry {
            zone_blocks: u16::try_from(zone_blocks)?,
            zones: ZONES,
            conventional: layout.geo.main_blkaddr.div_ceil(zone_blocks),
        };
        let device =
            StoreDevice::create(store.clone(), &Path::from("v"), geometry, false, Options::default())?;
        let device = Arc::new(device);
        format(&[Member { device: device.clone(), path: String::new(), zeroed: true }], &options)?;
        Ok(Self { store, device })
    }

    fn mount(&self) -> Result<Arc<Volume>> {
        Ok(Volume::mount(self.device.clone(), MountOptions { background: false, ..MountOptions::default() })?)
    }

    /// Closes the device and opens it again, with an empty cache.
    fn reopen(self) -> Result<Self> {
        let Self { store, device } = self;
        BlockDevice::close(&*device)?;
        drop(device);
        let device = Arc::new(StoreDevice::open(store.clone(), &Path::from("v"), Options::default())?);
        Ok(Self { store, device })
    }

    fn counts(&self) -> Vec<(Cause, Count)> {
        Cause::ALL.iter().map(|&cause| (cause, self.device.stats().count(cause))).collect()
    }
}

pub fn run(work: Work, conditions: Conditions, sizes: Sizes, seed: u64) -> Result<Found> {
    let raw = raw::measure(conditions.latency, sizes.bytes)?;
    let mut rig = Rig::format(conditions, seed)?;
    if matches!(work, Work::Read | Work::Mount) {
        let volume = rig.mount()?;
        write(&InProcess::new(volume.clone()), sizes.bytes)?;
        volume.unmount()?;
        drop(volume);
        if work == Work::Mount {
            return mount(rig, &raw);
        }
        rig = rig.reopen()?;
    }
    let volume = rig.mount()?;
    let fs = InProcess::new(volume.clone());
    let (before, engine) = (rig.counts(), engine_bytes(&volume));
    let (value, user_bytes) = match work {
        Work::Fsync { threads } => fsyncs(&fs, &volume, threads, sizes.fsyncs)?,
        Work::Write => (write(&fs, sizes.bytes)?, sizes.bytes),
        Work::Read => (read(&fs, sizes.bytes)?, sizes.bytes),
        Work::SmallFiles => (small_files(&fs, sizes.files)?, sizes.files * BLOCK_SIZE as u64),
        Work::Mount => bail!("a mount is measured before"),
    };
    let counts = since(&rig.counts(), &before);
    let engine_bytes = engine_bytes(&volume) - engine;
    volume.unmount()?;
    Ok(Found { value, raw: work.raw(&raw), user_bytes, engine_bytes, counts })
}

/// Time to open the device and the volume.
fn mount(rig: Rig, raw: &Raw) -> Result<Found> {
    let Rig { store, device } = rig;
    BlockDevice::close(&*device)?;
    drop(device);
    let begun = Instant::now();
    let device = Arc::new(StoreDevice::open(store.clone(), &Path::from("v"), Options::default())?);
    let rig = Rig { store, device };
    let volume = rig.mount()?;
    let value = begun.elapsed().as_secs_f64() * 1e3;
    let counts = rig.counts();
    volume.unmount()?;
    Ok(Found { value, raw: Work::Mount.raw(raw), user_bytes: 0, engine_bytes: 0, counts })
}

/// Median of one thread, or rate of several. Each thread has a file.
fn fsyncs(fs: &InProcess, volume: &Volume, threads: u64, each: u64) -> Result<(f64, u64)> {
    let files: Vec<_> = (0..threads).map(|i| fs.create(&format!("f{i}"))).collect::<Result<_>>()?;
    volume.sync()?;
    let begun = Instant::now();
    let times = std::thread::scope(|scope| {
        let running: Vec<_> = files
            .into_iter()
            .map(|file| {
                scope.spawn(move || {
                    (0..each).map(|i| timed_fsync(&*file, i)).collect::<Result<Vec<Duration>>>()
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
            .collect::<Result<Vec<_>>>()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut times = times.concat();
    times.sort();
    let median = times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1e3;
    let done = threads * each;
    Ok((if threads == 1 { median } else { done as f64 / seconds }, done * BLOCK_SIZE as u64))
}

fn timed_fsync(file: &dyn crate::work::fs::File, i: u64) -> Result<Duration> {
    file.write(i * BLOCK_SIZE as u64, &[i as u8; BLOCK_SIZE])?;
    let begun = Instant::now();
    file.fsync()?;
    Ok(begun.elapsed())
}

fn write(fs: &InProcess, bytes: u64) -> Result<f64> {
    let (data, begun) = (vec![3; 1 << 20], Instant::now());
    let file = fs.create("large")?;
    for at in (0..bytes).step_by(data.len()) {
        file.write(at, &data)?;
    }
    file.fsync()?;
    Ok(bytes as f64 / MIB / begun.elapsed().as_secs_f64())
}

fn read(fs: &InProcess, bytes: u64) -> Result<f64> {
    let (mut data, begun) = (vec![0; 1 << 20], Instant::now());
    let file = fs.open("large")?;
    for at in (0..bytes).step_by(data.len()) {
        file.read(at, &mut data)?;
    }
    Ok(bytes as f64 / MIB / begun.elapsed().as_secs_f64())
}

fn small_files(fs: &InProcess, files: u64) -> Result<f64> {
    let begun = Instant::now();
    for i in 0..files {
        fs.create(&format!("s{i}"))?.write(0, &[i as u8; BLOCK_SIZE])?;
    }
    fs.sync()?;
    Ok(files as f64 / begun.elapsed().as_secs_f64())
}

/// Bytes that the engine has written to the device.
fn engine_bytes(volume: &Volume) -> u64 {
    let kinds = ["data_blocks", "gc_data_blocks", "dent_blocks", "node_blocks", "meta_blocks"];
    let blocks: u64 = volume.report().iter().filter(|(name, _)| kinds.contains(name)).map(|(_, n)| n).sum();
    blocks * BLOCK_SIZE as u64
}

fn since(now: &[(Cause, Count)], before: &[(Cause, Count)]) -> Vec<(Cause, Count)> {
    let change = |a: Count, b: Count| Count {
        puts: a.puts - b.puts,
        gets: a.gets - b.gets,
        others: a.others - b.others,
        bytes_put: a.bytes_put - b.bytes_put,
        bytes_got: a.bytes_got - b.bytes_got,
        retries: a.retries - b.retries,
    };
    now.iter().zip(before).map(|(&(cause, a), &(_, b))| (cause, change(a, b))).collect()
}
