//! The same experiment on the engine: a volume on an emulated zoned device in memory, which stores one word for each data block.
use super::{Args, Part, Row};
use crate::progress::Progress;
use anyhow::{Context, Result, anyhow, bail, ensure};
use segno_device::{BlockDevice, ZoneLimits};
use segno_engine::stat::Recorded;
use segno_engine::{MountOptions, Owner, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use segno_gcmodel::{Counters, Experiment, Kind, Shape, Workload};
use segno_mkfs::{Member, MkfsOptions, format};
use segno_testkit::Rng;
use segno_testkit::{ZoneShape, ZonedDevice};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Experiments of which the engine runs the same workload as the model, by default.
pub const EXPERIMENTS: [&str; 3] = ["E1", "E2", "E4"];
/// Conventional zones for metadata, at most.
const CONVENTIONAL_MOST: u32 = 64;
const CACHE: usize = 256 << 20;

/// A volume with the experiment's file.
struct Rig {
    e: Experiment,
    dev: Arc<ZonedDevice>,
    v: Arc<Volume>,
    ino: Ino,
    stride: u64,
    /// How often each block was written.
    versions: Vec<u32>,
    /// Pages written since the last writeback.
    dirty: HashMap<u64, ()>,
    /// Dirty pages at which writeback starts; it writes all, so that on average half of them are dirty.
    high: usize,
    rng: Rng,
    issued: u64,
}

pub fn run(args: &Args, experiment: &Experiment, policy: &str, progress: &mut Progress) -> Result<Row> {
    let begun = Instant::now();
    let mut rig = Rig::new(*experiment, policy, args.common.seed)?;
    rig.lay_out()?;
    let (base, layout_stalls) = (rig.counts(), rig.v.stats().gc_stall.recorded());
    let wanted = experiment.writes.unwrap_or((rig.versions.len() as f64 * experiment.times) as u64);
    let wanted = args.writes.map_or(wanted, |n| n.min(wanted));
    let mut quarters = Vec::new();
    for quarter in 1..=4 {
        while rig.issued < wanted * quarter / 4 {
            rig.step().with_context(|| format!("after {} application writes", rig.issued))?;
            if rig.issued.is_multiple_of(wanted / 100 + 1) {
                progress.detail(|| {
                    format!("{} {policy} engine: {} %", experiment.name, rig.issued * 100 / wanted)
                });
            }
        }
        quarters.push(rig.part(&base, &layout_stalls));
    }
    let nodes = rig.v.report().iter().find(|(n, _)| *n == "valid_node_count").map_or(0, |&(_, n)| n);
    let file_blocks = rig.versions.len() as u64;
    let violations = rig.verify()?;
    Ok(Row {
        source: "engine",
        experiment: experiment.name.to_owned(),
        policy: policy.to_owned(),
        r#loop: "engine",
        dirty_percent: experiment.dirty * 100.0,
        count_dirty_data: true,
        lifetime: false,
        oracle: None,
        file_blocks,
        node_blocks: nodes,
        layout_writes: base.total(),
        whole: quarters.last().cloned().context("the run has no end")?,
        zone_violations: violations,
        quarters,
        wall_s: begun.elapsed().as_secs_f64(),
    })
}

impl Rig {
    fn new(e: Experiment, policy: &str, seed: u64) -> Result<Self> {
        let Shape::File { stride } = e.shape else {
            bail!("{}: the engine runs experiments with one file only", e.name)
        };
        let dev = device(&e)?;
        let opts = MountOptions {
            background: false,
            gc_policy: Some(policy.to_owned()),
            cache_bytes: CACHE,
            ..MountOptions::default()
        };
        let v = Volume::mount(dev.clone(), opts)?;
        let ino = v.mknod(Ino::ROOT, b"file", 0o100_644, (0, 0), Owner::default())?.ino;
        let room = v.statfs().bfree;
        // A node maps 1018 positions, of which one in `stride` is a block.
        let most = (room - 8) * 1018 / (1018 + stride) - 2;
        let blocks = e.file_blocks.map_or(most, |n| n.min(most));
        let high = (blocks as f64 * e.dirty * 2.0) as usize;
        Ok(Self {
            e,
            dev,
            v,
            ino,
            stride,
            versions: vec![0; blocks as usize],
            dirty: HashMap::new(),
            high,
            rng: Rng::for_thread(seed, 0),
            issued: 0,
        })
    }

    fn lay_out(&mut self) -> Result<()> {
        for block in 0..self.versions.len() as u64 {
            self.write(block)?;
            self.write_back()?;
        }
        self.v.fsync(self.ino, false)?;
        self.v.sync()?;
        self.dirty.clear();
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let n = self.versions.len() as u64;
        let block = match self.e.workload {
            Workload::Uniform => self.rng.below(n),
            Workload::Sequential => self.issued % n,
            Workload::Hot(share) => self.rng.below((n as f64 * share) as u64),
            Workload::Zipf(_) | Workload::Mix => {
                bail!("{}: the engine does not run this workload", self.e.name)
            }
        };
        self.issued += 1;
        self.write(block)?;
        match self.e.fsync_every {
            Some(every) if self.issued.is_multiple_of(every) => Ok(self.v.fsync(self.ino, true)?),
            Some(_) => Ok(()),
            None => self.write_back(),
        }
    }

    fn write(&mut self, block: u64) -> Result<()> {
        let version = self.versions.get_mut(block as usize).context("no such block")?;
        *version += 1;
        let at = block * self.stride * BLOCK_SIZE as u64;
        let written = self.v.write(self.ino, at, &content(block, *version))?;
        ensure!(written == BLOCK_SIZE, "a short write");
        self.dirty.insert(block, ());
        Ok(())
    }

    fn write_back(&mut self) -> Result<()> {
        if self.dirty.len() > self.high {
            self.dirty.clear();
            self.v.flush_all_data()?;
        }
        Ok(())
    }

    fn counts(&self) -> Counters {
        let all: HashMap<_, _> = self.v.stats().snapshot().into_iter().collect();
        let get = |name: &str| all.get(name).copied().unwrap_or(0);
        let mut c = Counters { app_writes: self.issued, ..Counters::default() };
        c.wrote(Kind::UserData, get("data_blocks"));
        c.wrote(Kind::MovedData, get("gc_data_blocks"));
        c.wrote(Kind::Nodes, get("node_blocks").saturating_sub(get("gc_node_blocks")));
        c.wrote(Kind::MovedNodes, get("gc_node_blocks"));
        c.wrote(Kind::Dents, get("dent_blocks"));
        // All other writes: packs, SIT, NAT and summaries.
        let zones = self.dev.counts();
        c.wrote(Kind::Pack, zones.blocks_written.saturating_sub(c.total()));
        c.checkpoints = get("checkpoints");
        c.rounds = get("gc_foreground");
        c.sections = [get("gc_sections"), 0];
        c.zone_resets = zones.resets;
        c
    }

    fn part(&self, base: &Counters, layout_stalls: &Recorded) -> Part {
        let mut c = self.counts();
        for (now, then) in c.writes.iter_mut().zip(base.writes) {
            *now -= then;
        }
        c.checkpoints -= base.checkpoints;
        c.rounds -= base.rounds;
        c.zone_resets -= base.zone_resets;
        let sections = c.sections.iter().sum::<u64>() - base.sections.iter().sum::<u64>();
        let mut part = Part::of(&c);
        for class in [Kind::Sit, Kind::Nat, Kind::Ssa, Kind::Pack] {
            part.waf_by_class.remove(class.name());
        }
        part.waf_by_class.insert("meta".into(), json!(c.of(Kind::Pack) as f64 / c.app_writes.max(1) as f64));
        part.absorbed = 1.0 - c.of(Kind::UserData) as f64 / c.app_writes.max(1) as f64;
        part.gc_sections = json!({ "data": null, "node": null, "all": sections });
        part.gc_segments = json!({ "data": null, "node": null });
        let stalls = self.v.stats().gc_stall.recorded().since(layout_stalls);
        part.stall_blocks =
            json!({ "p50": stalls.quantile(0.5), "p99": stalls.quantile(0.99), "max": stalls.max() });
        part
    }

    /// Unmounts, checks the volume, and verifies all data. Returns the number of violated zone rules.
    fn verify(self) -> Result<u64> {
        self.v.unmount()?;
        let report = segno_check::check(&*self.dev, &segno_check::CheckOptions::default(), &mut |_| {})
            .map_err(|e| anyhow!("check: {e}"))?;
        if let Some(first) = report.problems.first() {
            bail!("the checker found {} problems, first: {first}", report.problems.len());
        }
        let v =
            Volume::mount(self.dev.clone(), MountOptions { background: false, ..MountOptions::default() })?;
        let mut bytes = vec![0; BLOCK_SIZE];
        for (block, &version) in (0..).zip(&self.versions) {
            v.read(self.ino, block * self.stride * BLOCK_SIZE as u64, &mut bytes)?;
            ensure!(bytes == content(block, version), "block {block} does not hold its version {version}");
        }
        v.unmount()?;
        Ok(self.dev.counts().violations)
    }
}

/// The words of a block: which it is and which version.
fn content(block: u64, version: u32) -> Vec<u8> {
    let word = (block << 32) | u64::from(version);
    word.to_le_bytes().repeat(BLOCK_SIZE / 8)
}

/// A formatted device with the experiment's number of zones after the metadata.
fn device(e: &Experiment) -> Result<Arc<ZonedDevice>> {
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
        match format(&[Member { device, path: "memory".into(), zeroed: true }], &opts) {
            Ok(r) if u64::from(r.layout.main_blkaddr) == u64::from(conventional) * blocks => return Ok(dev),
            Ok(_) => {}
            Err(e) => why = Some(e),
        }
    }
    Err(why.map_or_else(|| anyhow!("no layout has {} zones of data", e.zones), Into::into))
}
