//! The workloads and their untimed preparation.
use super::Scale;
use super::tree;
use crate::work::Prepared;
use crate::work::fs::Fs;
use crate::work::job::{Data, Job, MetaStep};
use crate::work::metadata;
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// Works that share a volume, one after the other.
#[derive(Clone, Debug)]
pub enum Work {
    /// Steps of so many operations a thread.
    Names { each: u32, threads: usize },
    /// For a fixed time.
    Timed(Job),
    /// A tree of files is copied.
    Tree { files: u32 },
}

/// Names of the metadata steps, in their order.
const STEPS: [(MetaStep, &str); 7] = [
    (MetaStep::Mkdir, "mkdir"),
    (MetaStep::Rmdir, "rmdir"),
    (MetaStep::Create, "create empty"),
    (MetaStep::Unlink, "unlink empty"),
    (MetaStep::Create4k, "create 4 KiB"),
    (MetaStep::Copy4k, "copy 4 KiB"),
    (MetaStep::Unlink4k, "unlink 4 KiB"),
];

/// Result of a workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkResult {
    pub ops: u64,
    pub seconds: f64,
}

/// Times a named part of a workload.
pub type Timer<'a, F> = &'a mut dyn FnMut(&str, &mut F, &dyn Fn(&F) -> Result<WorkResult>) -> Result<()>;

impl Work {
    pub fn name(&self) -> &str {
        match self {
            Self::Names { .. } => "names",
            Self::Timed(job) => &job.name,
            Self::Tree { .. } => "tree copy",
        }
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        match self {
            Self::Names { threads, .. } => *threads,
            Self::Timed(job) => job.threads,
            Self::Tree { .. } => 1,
        }
    }

    /// Runs the workload; `timer` runs each part.
    pub fn run<F: Fs>(&self, fs: &mut F, time: Duration, seed: u64, timer: Timer<'_, F>) -> Result<()> {
        match self {
            Self::Names { each, threads } => {
                metadata::prepare(fs, *threads)?;
                for (step, name) in STEPS {
                    timer(name, fs, &|fs| {
                        let begun = Instant::now();
                        let done = metadata::run_step(fs, step, *each, *threads)?;
                        fs.sync()?;
                        Ok(WorkResult { ops: done.ops, seconds: begun.elapsed().as_secs_f64() })
                    })?;
                }
                Ok(())
            }
            Self::Timed(job) => {
                let work = Prepared::new(fs, job, seed)?;
                fs.sync()?;
                timer(&job.name, fs, &|fs| {
                    let begun = Instant::now();
                    let done = work.run(fs, time)?;
                    fs.sync()?;
                    Ok(WorkResult { ops: done.ops, seconds: begun.elapsed().as_secs_f64() })
                })
            }
            Self::Tree { files } => {
                tree::make(fs, *files, seed)?;
                timer("tree copy", fs, &|fs| {
                    let begun = Instant::now();
                    let ops = tree::copy(fs, *files)?;
                    fs.sync()?;
                    Ok(WorkResult { ops, seconds: begun.elapsed().as_secs_f64() })
                })
            }
        }
    }
}

/// All workloads.
pub fn all(scale: &Scale) -> Result<Vec<Work>> {
    let mut out = vec![Work::Names { each: scale.names_each, threads: 2 }];
    for (name, files) in [
        ("varmail", scale.varmail_files),
        ("fileserver", scale.server_files),
        ("webserver", scale.server_files),
        ("webproxy", scale.server_files),
    ] {
        let mut job = Job::named(name)?;
        job.threads = job.threads.min(scale.threads);
        job.flow.as_mut().context("a flow")?.files = files;
        out.push(Work::Timed(job));
    }
    let mut oltp = Job::named("oltp")?;
    oltp.data.as_mut().context("a data job")?.size = scale.data_bytes;
    out.push(Work::Timed(oltp));
    for (name, block, random) in [("sequential data", 1 << 20, false), ("random data", 4096, true)] {
        let data =
            Data { size: scale.data_bytes, block, random, shared: false, read_percent: 0, fsync_every: 0 };
        let (flow, metadata, sqlite) = (None, None, None);
        let (name, data, seconds) = (name.to_owned(), Some(data), Some(1.0));
        out.push(Work::Timed(Job { name, threads: 1, seconds, flow, data, metadata, sqlite }));
    }
    out.push(Work::Tree { files: scale.tree_files });
    Ok(out)
}
