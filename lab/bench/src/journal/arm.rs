//! A workload on a fresh volume, in one of the modes.
use super::Scale;
use super::mode::Mode;
use super::pace::{Clock, Pacer};
use super::row::{Once, Phases};
use super::timed::Timed;
use super::work::{Work, WorkResult};
use crate::place::Place;
use anyhow::Result;
use segno_device::BlockDevice;
use segno_engine::{Background, Volume};
use segno_format::BLOCK_SIZE;
use segno_mkfs::MkfsOptions;
use segno_testkit::CountDevice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The same in all modes: the volume leaves a gap for the journal.
pub fn mkfs(scale: &Scale) -> MkfsOptions {
    MkfsOptions { gap_blocks: scale.ring_bytes / BLOCK_SIZE as u64, ..MkfsOptions::default() }
}

/// A fresh volume, and how it was formatted.
pub fn format(place: &Place, scale: &Scale) -> Result<(Arc<Device>, String)> {
    let (device, how) = place.format(&mkfs(scale))?;
    Ok((Arc::new(CountDevice::new(device)), how))
}

/// Parameters of a run.
#[derive(Clone, Copy)]
pub struct Arm<'a> {
    pub place: &'a Place,
    pub scale: &'a Scale,
    pub work: &'a Work,
    pub seed: u64,
}

pub type Device = CountDevice<Arc<dyn BlockDevice>>;

impl Arm<'_> {
    /// Formats, prepares and runs; returns the figures of each part and the format of the volume.
    pub fn run(&self, mode: Mode) -> Result<(Vec<Once>, String)> {
        let scale = self.scale;
        let (device, how) = format(self.place, scale)?;
        let volume = Volume::mount(device.clone(), mode.options(scale.cache_bytes))?;
        let background = Background::start(&volume)?;
        let mut found = Vec::new();
        let mut fs = Timed::new(volume.clone());
        let time = Duration::from_secs_f64(scale.seconds);
        let mut timer = |name: &str, fs: &mut Timed, part: &dyn Fn(&Timed) -> Result<WorkResult>| {
            let _before = fs.times();
            let counted = Counted::of(&volume, &device);
            let clock = match self.work {
                Work::Timed(_) => Clock::Elapsed { second: Duration::from_millis(scale.second_ms) },
                Work::Names { .. } | Work::Tree { .. } => {
                    Clock::Calls { second: scale.second_calls, done: fs.calls() }
                }
            };
            let pacer = Pacer::start(&volume, mode, &clock);
            let did = part(fs);
            pacer.end()?;
            found.push(counted.once(name, &volume, &device, did?, fs, mode));
            Ok(())
        };
        self.work.run(&mut fs, time, self.seed, &mut timer)?;
        drop(background);
        volume.unmount()?;
        Ok((found, how))
    }
}

/// Counters at the start of the timed part.
struct Counted {
    device: segno_testkit::Counts,
    blocked: crate::Recorded,
    phases: Phases,
    log_bytes: u64,
    checkpoints: u64,
    commits: u64,
}

impl Counted {
    fn of(volume: &Volume, device: &Device) -> Self {
        let stats = volume.stats();
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        Self {
            device: device.counts(),
            blocked: stats.checkpoint_blocked.recorded(),
            phases: Phases::of(volume),
            log_bytes: get(&stats.journal_bytes),
            checkpoints: get(&stats.checkpoints),
            commits: get(&stats.journal_commits),
        }
    }

    fn once(
        &self,
        name: &str,
        volume: &Volume,
        device: &Device,
        did: WorkResult,
        fs: &mut Timed,
        mode: Mode,
    ) -> Once {
        let (now, times) = (Self::of(volume, device), fs.times());
        let io = now.device - self.device;
        Once {
            workload: name.to_owned(),
            seconds: did.seconds,
            ops: did.ops,
            latency: times.all.recorded(),
            applying: times.applying.recorded(),
            blocked: now.blocked.since(&self.blocked),
            bytes_written: io.blocks_written * BLOCK_SIZE as u64,
            flushes: io.flushes,
            log_bytes: (mode == Mode::Journal).then(|| now.log_bytes - self.log_bytes),
            checkpoints: now.checkpoints - self.checkpoints,
            commits: now.commits - self.commits,
            phases: now.phases.since(&self.phases),
        }
    }
}
