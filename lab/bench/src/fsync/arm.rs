//! One timed run of a workload on a fresh volume in this process.
use super::row::{Counters, Once};
use crate::place::Place;
use crate::work::Prepared;
use crate::work::fs::InProcess;
use crate::work::job::Job;
use anyhow::Result;
use segno_engine::options::{FsyncLookup, FsyncMode};
use segno_engine::{Background, MountOptions, Volume};
use segno_mkfs::MkfsOptions;
use std::time::Duration;

/// Large enough that no run writes data or a checkpoint because memory is short.
const CACHE: usize = 6 << 30;

/// Parameters of a run, except for the node lookup.
#[derive(Clone, Copy, Debug)]
pub struct Arm<'a> {
    pub place: &'a Place,
    pub job: &'a Job,
    pub fsync_mode: FsyncMode,
    pub time: Duration,
    pub seed: u64,
}

/// Mount options of all runs: a checkpoint each minute, as in F2FS.
pub fn options(fsync_mode: FsyncMode, lookup: FsyncLookup) -> MountOptions {
    MountOptions {
        fsync_mode,
        fsync_lookup: lookup,
        cache_bytes: CACHE,
        commit_interval: 60,
        background_gc: false,
        ..MountOptions::default()
    }
}

impl Arm<'_> {
    /// Formats, prepares and runs; returns the figures of the timed part and the format of the volume.
    pub fn run(&self, lookup: FsyncLookup) -> Result<(Once, String)> {
        let (device, mkfs) = self.place.format(&MkfsOptions::default())?;
        let volume = Volume::mount(device, options(self.fsync_mode, lookup))?;
        let background = Background::start(&volume)?;
        let fs = InProcess::new(volume.clone());
        let work = Prepared::new(&fs, self.job, self.seed)?;
        let before = Counters::of(&volume);
        let done = work.run(&fs, self.time)?;
        let inside = Counters::of(&volume).since(&before);
        drop(background);
        volume.unmount()?;
        let once = Once {
            ops_per_s: done.ops as f64 / done.seconds,
            fsyncs_per_s: done.fsyncs.count() as f64 / done.seconds,
            fsyncs: done.fsyncs,
            inside: Some(inside),
        };
        Ok((once, mkfs))
    }
}
