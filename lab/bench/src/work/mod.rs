//! Workloads: descriptions, generators and targets.
mod data;
mod flow;
pub mod fs;
pub mod job;
pub mod metadata;
pub mod sqlite;

use crate::{Histogram, Recorded};
use anyhow::{Result, bail};
use fs::Fs;
use job::Job;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Totals over the threads of a timed workload.
#[derive(Debug, Default)]
pub struct Tally {
    ops: AtomicU64,
    bytes: AtomicU64,
    fsyncs: Histogram,
}

/// Result of a timed workload.
#[derive(Clone, Debug)]
pub struct Done {
    pub ops: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Latencies of fsync in nanoseconds, as the caller saw them.
    pub fsyncs: Recorded,
    pub seconds: f64,
}

impl Tally {
    fn op(&self) {
        self.ops.fetch_add(1, Ordering::Relaxed);
    }

    fn wrote(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn fsync(&self, call: impl FnOnce() -> Result<()>) -> Result<()> {
        let begun = Instant::now();
        call()?;
        self.fsyncs.record(begun.elapsed().as_nanos() as u64);
        Ok(())
    }
}

/// A prepared timed workload.
pub struct Prepared<'a> {
    job: &'a Job,
    seed: u64,
    files: Option<flow::FileSet>,
}

impl<'a> Prepared<'a> {
    /// Creates the files.
    pub fn new(fs: &dyn Fs, job: &'a Job, seed: u64) -> Result<Self> {
        let files = match (&job.flow, &job.data) {
            (Some(flow), _) => Some(flow::prepare(fs, flow, job.threads, seed)?),
            (None, Some(data)) => {
                data::prepare(fs, data, job.threads)?;
                None
            }
            (None, None) => bail!("{} runs no fixed time", job.name),
        };
        Ok(Self { job, seed, files })
    }

    /// Runs for a time; returns the first error of a thread.
    pub fn run(&self, fs: &dyn Fs, time: Duration) -> Result<Done> {
        let tally = Tally::default();
        let begun = Instant::now();
        let until = begun + time;
        let results: Vec<Result<()>> = thread::scope(|s| {
            let one = |t: usize| {
                let tally = &tally;
                s.spawn(move || match (&self.job.flow, &self.files, &self.job.data) {
                    (Some(flow), Some(files), _) => flow::thread(fs, flow, files, t, self.seed, until, tally),
                    (_, _, Some(data)) => data::thread(fs, data, t, self.seed, until, tally),
                    _ => Ok(()),
                })
            };
            let all: Vec<_> = (0..self.job.threads).map(one).collect();
            all.into_iter().map(|h| h.join().unwrap_or_else(|_| bail!("a thread panicked"))).collect()
        });
        let seconds = begun.elapsed().as_secs_f64();
        results.into_iter().collect::<Result<Vec<()>>>()?;
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        Ok(Done { ops: get(&tally.ops), bytes: get(&tally.bytes), fsyncs: tally.fsyncs.recorded(), seconds })
    }
}
