//! Runs and times the steps of a [`Metadata`] job.
use super::fs::Fs;
use super::job::{MetaStep, Metadata};
use anyhow::Result;
use std::thread;
use std::time::Instant;

const BLOCK: [u8; 4096] = [0x5a; 4096];

/// Operations per second of one step, all threads together.
pub struct StepRate {
    pub step: MetaStep,
    pub ops: u64,
    pub seconds: f64,
}

/// All steps in turn.
pub fn run(fs: &dyn Fs, job: &Metadata, threads: usize) -> Result<Vec<StepRate>> {
    prepare(fs, threads)?;
    job.steps.iter().map(|&step| run_step(fs, step, job.each, threads)).collect()
}

/// Makes a directory for each thread.
pub fn prepare(fs: &dyn Fs, threads: usize) -> Result<()> {
    for t in 0..threads {
        fs.mkdir(&format!("t{t}"))?;
    }
    fs.sync()
}

/// Runs one step on all threads, `each` times on each.
pub fn run_step(fs: &dyn Fs, step: MetaStep, each: u32, threads: usize) -> Result<StepRate> {
    let begun = Instant::now();
    let done: Result<Vec<u64>> = thread::scope(|s| {
        let all: Vec<_> = (0..threads).map(|t| s.spawn(move || one(fs, step, each, t))).collect();
        all.into_iter().map(|h| h.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked"))).collect()
    });
    Ok(StepRate { step, ops: done?.iter().sum(), seconds: begun.elapsed().as_secs_f64() })
}

/// Runs a step on one thread; returns the number of operations. Later steps use the results of earlier ones.
fn one(fs: &dyn Fs, step: MetaStep, each: u32, thread: usize) -> Result<u64> {
    let name = |kind: &str, i: u32| format!("t{thread}/{kind}{i}");
    if step == MetaStep::List {
        return Ok(fs.list(&format!("t{thread}"))? as u64);
    }
    for i in 0..each {
        match step {
            MetaStep::Mkdir => fs.mkdir(&name("d", i))?,
            MetaStep::Rmdir => fs.rmdir(&name("d", i))?,
            MetaStep::Create => drop(fs.create(&name("e", i))?),
            MetaStep::Unlink => fs.unlink(&name("e", i))?,
            MetaStep::Create4k => fs.create(&name("s", i))?.write(0, &BLOCK)?,
            MetaStep::Copy4k => {
                let mut content = [0; 4096];
                fs.open(&name("s", i))?.read(0, &mut content)?;
                fs.create(&name("c", i))?.write(0, &content)?;
            }
            MetaStep::Unlink4k => {
                fs.unlink(&name("s", i))?;
                fs.unlink(&name("c", i))?;
            }
            MetaStep::List => {}
        }
    }
    Ok(u64::from(each) * if step == MetaStep::Unlink4k { 2 } else { 1 })
}
