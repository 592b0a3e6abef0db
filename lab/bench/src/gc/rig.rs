//! A volume on an emulated zoned device in memory, with the experiment's files.
use super::tag::Tag;
use super::verifying_device::VerifyingDevice;
use anyhow::{Context, Result, anyhow, ensure};
use segno_device::{BlockDevice, ZoneLimits};
use segno_engine::lab::{self, Probe};
use segno_engine::types::Time;
use segno_engine::{Clock, MountOptions, Owner, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use segno_gcmodel::{Bits, Costs, Experiment, LAYOUT_DIRTY, Op, PER_SECOND, Shape, Source, WriteWaits};
use segno_mkfs::{Member, MkfsOptions, format};
use segno_testkit::{ZoneShape, ZonedDevice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Conventional zones for metadata, at most.
const CONVENTIONAL_MOST: u32 = 64;
/// The least cache, and its size as a multiple of the dirty pages.
const CACHE_MIN: usize = 256 << 20;
const CACHE_TIMES_DIRTY: usize = 4;

/// The devices of a rig, from the zones up.
pub struct Devices {
    pub zoned: Arc<ZonedDevice>,
    pub verifier: Arc<VerifyingDevice>,
    /// What the engine is given.
    pub top: Arc<dyn BlockDevice>,
}

/// A mounted volume and the application.
pub struct Rig {
    pub e: Experiment,
    pub dev: Devices,
    pub v: Arc<Volume>,
    /// The one file, or all.
    pub files: Vec<Ino>,
    /// How often each page was written.
    pub versions: Vec<u32>,
    pub waits: WriteWaits,
    /// Blocks the application wrote.
    pub written: u64,
    pub source: Source,
    steps: Arc<Steps>,
    /// Pages written since they were last written back; cleaning never writes them.
    dirty: Bits,
    limit: u64,
    cursor: u32,
    page: Box<[u8; BLOCK_SIZE]>,
}

/// A clock that goes by the application's writes, as in the model.
#[derive(Default)]
struct Steps(AtomicU64);

impl Clock for Steps {
    fn now(&self) -> Time {
        Time { secs: (self.0.load(Ordering::Relaxed) / PER_SECOND).cast_signed(), nsec: 0 }
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed) / PER_SECOND)
    }
}

impl Rig {
    pub fn new(e: Experiment, dev: Devices, policy: &str, lifetime: bool, seed: u64) -> Result<Self> {
        let (pages, files) = e.extent();
        let limit = e.dirty_limit();
        let opts = MountOptions {
            background: false,
            gc_policy: Some(policy.to_owned()),
            lifetime,
            cache_bytes: CACHE_MIN.max(limit as usize * CACHE_TIMES_DIRTY * BLOCK_SIZE),
            ..MountOptions::default()
        };
        let steps = Arc::<Steps>::default();
        let v = lab::mount(dev.top.clone(), opts, steps.clone())?;
        let room = v.statfs().bfree;
        let fits = pages < room || matches!(e.shape, Shape::Small { .. });
        ensure!(fits, "{}: {pages} pages do not fit into the {room} blocks for users", e.name);
        let mut rig = Self {
            dev,
            v,
            files: vec![Ino::ROOT; files as usize],
            versions: vec![0; pages as usize],
            waits: WriteWaits::default(),
            written: 0,
            source: Source::new(&e, seed),
            steps,
            dirty: Bits::new(pages as usize),
            limit,
            cursor: 0,
            page: Box::new([0; BLOCK_SIZE]),
            e,
        };
        if matches!(e.shape, Shape::File { .. }) {
            rig.create(0)?;
        }
        Ok(rig)
    }

    /// Writes the file, or all files, in order.
    pub fn lay_out(&mut self) -> Result<()> {
        while let Some(op) = self.source.layout() {
            self.apply(op)?;
            match op {
                Op::Create { .. } if self.dirty.len > LAYOUT_DIRTY => self.write_back(0)?,
                Op::Create { .. } => {}
                _ => self.write_back(self.limit)?,
            }
        }
        self.write_back(0)?;
        self.v.sync()?;
        self.written = 0;
        Ok(())
    }

    /// One application write, or a file's replacement.
    pub fn step(&mut self) -> Result<()> {
        let before = self.costs();
        let (op, along) = self.source.step();
        self.apply(op)?;
        along.map_or(Ok(()), |op| self.apply(op))?;
        if self.e.fsync_every.is_none() {
            self.write_back(self.limit)?;
        }
        self.waits.record(before, self.costs());
        Ok(())
    }

    fn costs(&self) -> Costs {
        let s = self.v.stats();
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let moved = get(&s.gc_data_blocks);
        let data = get(&s.data_blocks) + moved;
        Costs {
            writes: self.written,
            moved,
            checkpoints: get(&s.checkpoints),
            committed: self.dev.zoned.counts().blocks_written - data,
        }
    }

    fn apply(&mut self, op: Op) -> Result<()> {
        match op {
            Op::Write(page) => self.write(page),
            Op::Create { file, blocks } => {
                self.create(file)?;
                let first = self.e.pages_of(file).start;
                (first..first + blocks).try_for_each(|page| self.write(page))
            }
            Op::Delete(file) => self.delete(file),
            Op::Fsync => {
                self.dirty = Bits::new(self.versions.len());
                Ok(self.v.fsync(self.place_of(0).0)?)
            }
        }
    }

    fn create(&mut self, file: u32) -> Result<()> {
        let ino = self.v.mknod(Ino::ROOT, &name(file), 0o100_644, (0, 0), Owner::default())?.ino;
        self.dev.verifier.created(ino.0, self.e.pages_of(file).start);
        *self.files.get_mut(file as usize).context("no such file")? = ino;
        Ok(())
    }

    fn delete(&mut self, file: u32) -> Result<()> {
        let pages = self.e.pages_of(file);
        self.v.unlink(Ino::ROOT, &name(file))?;
        self.dev.verifier.deleted(self.place_of(pages.start).0.0, pages.clone());
        pages.for_each(|page| {
            self.dirty.remove(page);
        });
        Ok(())
    }

    /// File and block of a page.
    pub fn place_of(&self, page: u32) -> (Ino, u64) {
        let (file, within) = match self.e.shape {
            Shape::File { stride } => (0, u64::from(page) * stride),
            Shape::Small { blocks } => (u64::from(page) / blocks, u64::from(page) % blocks),
        };
        (self.files.get(file as usize).copied().unwrap_or(Ino::ROOT), within)
    }

    /// What a page holds.
    pub fn tag_of(&self, page: u32) -> Tag {
        let (ino, block) = self.place_of(page);
        let version = self.versions.get(page as usize).copied().unwrap_or_default();
        Tag { ino: ino.0, page: block as u32, version }
    }

    fn write(&mut self, page: u32) -> Result<()> {
        *self.versions.get_mut(page as usize).context("no such page")? += 1;
        let (ino, block) = self.place_of(page);
        self.tag_of(page).fill(&mut self.page);
        let written = self.v.write(ino, block * BLOCK_SIZE as u64, &*self.page)?;
        ensure!(written == BLOCK_SIZE, "a short write");
        self.dirty.add(page);
        self.written += 1;
        self.steps.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Writes pages back in file order from the cursor on, cyclically, until `left` are dirty.
    fn write_back(&mut self, left: u64) -> Result<()> {
        while self.dirty.len > left {
            let Some(page) = self.dirty.next(self.cursor).or_else(|| self.dirty.next(0)) else { break };
            let (ino, block) = self.place_of(page);
            let most = (self.dirty.len - left) as usize;
            let next = Probe(&self.v).write_back(ino, block, most)?;
            let pages = next.map_or(1, |next| (next - block).div_ceil(self.e.stride()));
            self.cursor = page + pages as u32;
            (page..self.cursor).for_each(|page| {
                self.dirty.remove(page);
            });
        }
        Ok(())
    }
}

fn name(file: u32) -> Vec<u8> {
    format!("{file:06}").into_bytes()
}

/// A formatted device with the experiment's number of zones after the metadata.
pub fn devices(e: &Experiment) -> Result<Devices> {
    let (zoned, main) = zoned(e)?;
    let verifier = Arc::new(VerifyingDevice::new(zoned.clone(), main, e));
    Ok(Devices { top: verifier.clone(), zoned, verifier })
}

/// The zones, and the first block of the main area.
pub fn zoned(e: &Experiment) -> Result<(Arc<ZonedDevice>, u64)> {
    let opts = MkfsOptions {
        zoned: true,
        overprovision_percent: Some(e.overprovision),
        reserved_sections: Some(e.reserved),
        ..MkfsOptions::default()
    };
    let blocks = u64::from(e.blocks_per_zone);
    let mut why = None;
    for conventional in 2..CONVENTIONAL_MOST {
        let shape = ZoneShape {
            zones: conventional + e.zones,
            conventional,
            blocks,
            capacity: blocks,
            limits: ZoneLimits::default(),
        };
        let dev = Arc::new(ZonedDevice::new(shape));
        let device: Arc<dyn BlockDevice> = dev.clone();
        let main = u64::from(conventional) * blocks;
        match format(&[Member { device, path: "memory".into(), zeroed: true }], &opts) {
            Ok(r) if u64::from(r.layout.geo.main_blkaddr) == main => return Ok((dev, main)),
            Ok(_) => {}
            Err(e) => why = Some(e),
        }
    }
    Err(why.map_or_else(|| anyhow!("no layout has {} zones of data", e.zones), Into::into))
}
