//! One run: volume, writers, result.
use super::age;
use super::extents::{Layout, best, layout};
use super::target::{Counted, Target};
use super::work::{self, MIB, Work};
use crate::machine::cpu_seconds;
use anyhow::{Context, Result};
use segno_engine::lab::Probe;
use segno_engine::{Background, ContextSetting, MountOptions, Volume};
use std::sync::Arc;
use std::time::Instant;

/// State of the volume before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Fresh,
    /// The same files were written and removed.
    Reused,
    /// Four fifths full with fragmented free space.
    Aged,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Reused => "reused",
            Self::Aged => "aged",
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Case {
    pub work: Work,
    pub state: State,
    pub writers: u64,
    /// Bytes of each writer, and of the volume.
    pub bytes: u64,
    pub volume: u64,
    pub contexts: u32,
    pub exclusive: bool,
    pub split: bool,
    pub cache: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub mib: f64,
    pub seconds: f64,
    pub layout: Layout,
    pub best: u64,
    pub alloc_calls: u64,
    pub written_mib: f64,
    pub writes: u64,
    pub cpu: f64,
    pub threads: u64,
}

impl Outcome {
    /// MiB/s.
    pub fn speed(&self) -> f64 {
        self.mib / self.seconds
    }
}

impl Case {
    pub fn title(&self, target: &Target<'_>) -> String {
        format!(
            "{} writers, {} {}, {} context(s), {} streams, {}",
            self.writers,
            self.work.name(),
            self.state.name(),
            self.contexts,
            if self.exclusive { "exclusive" } else { "shared" },
            target.name()
        )
    }

    pub fn run(&self, target: &Target<'_>, seed: u64, mkfs: &mut String) -> Result<Outcome> {
        let (device, formatted) = target.format(self.volume, self.split)?;
        *mkfs = formatted;
        let options = MountOptions {
            contexts: ContextSetting::Fixed(self.contexts),
            exclusive_streams: (!self.exclusive).then_some(0),
            cache_bytes: self.cache as usize,
            ..MountOptions::default()
        };
        let volume = Volume::mount(device.clone(), options)?;
        let background = Background::start(&volume)?;
        match self.state {
            State::Fresh => {}
            State::Reused => age::reuse(&volume, self, target.pattern(), seed)?,
            State::Aged => age::age(&volume, seed)?,
        }
        let outcome = self.measure(&volume, &device, target.pattern(), seed)?;
        drop(background);
        volume.unmount().context("cannot unmount")?;
        Ok(outcome)
    }

    fn measure(&self, v: &Arc<Volume>, device: &Counted, pattern: u8, seed: u64) -> Result<Outcome> {
        let best = best(&Probe(v).free_intervals(), self.writers, self.bytes);
        let (calls, counts, cpu) = (figure(v, "alloc_calls"), device.counts(), cpu_seconds());
        let begun = Instant::now();
        let files = work::run(v, self.work, self.writers, self.bytes, pattern, seed, "w")?;
        let seconds = begun.elapsed().as_secs_f64();
        let after = device.counts();
        Ok(Outcome {
            mib: (self.writers * self.bytes) as f64 / MIB as f64,
            seconds,
            layout: layout(v, &files)?,
            best: if self.work == Work::Small { files.len() as u64 } else { best },
            alloc_calls: figure(v, "alloc_calls") - calls,
            written_mib: (after.blocks_written - counts.blocks_written) as f64 / 256.0,
            writes: after.writes - counts.writes,
            cpu: cpu_seconds() - cpu,
            threads: figure(v, "writeback_threads"),
        })
    }
}

fn figure(v: &Volume, name: &str) -> u64 {
    v.report().into_iter().find(|(n, _)| *n == name).map_or(0, |(_, value)| value)
}
