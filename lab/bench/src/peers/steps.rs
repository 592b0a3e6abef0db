//! Steps of the job `metadata`, with one directory for each thread.
use super::rows::{Done, Scale};
use crate::work::fs::Mounted;
use crate::work::job::MetaStep;
use crate::work::metadata::{prepare, run_step};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Runs a step on the files of the scale. Later steps use what earlier ones made with the same number of threads.
pub fn run(dir: &Path, step: MetaStep, scale: Scale, threads: usize) -> Result<Done> {
    let own = dir.join(format!("steps{threads}"));
    let target = Mounted::new(own.clone());
    if !own.exists() {
        fs::create_dir(&own).with_context(|| format!("cannot make {}", own.display()))?;
        prepare(&target, threads)?;
    }
    let done = run_step(&target, step, scale.files.div_ceil(threads) as u32, threads)?;
    Ok(Done { units: done.ops as f64, seconds: done.seconds })
}
