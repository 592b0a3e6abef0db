//! Built-in jobs of `segno bench run` in a directory of each file system.
use super::rows::{Done, Scale};
use crate::work::Prepared;
use crate::work::fs::Mounted;
use crate::work::job::Job;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Operations of the job with this many threads, on files of the scale.
pub fn run(dir: &Path, name: &str, scale: Scale, threads: usize) -> Result<Done> {
    let mut job = Job::named(name)?;
    job.threads = threads;
    if let Some(flow) = &mut job.flow {
        // A thread holds up to one file.
        flow.files = flow.files.min(scale.files as u32).max(threads as u32 * 2);
    }
    if let Some(data) = &mut job.data {
        data.size = data.size.min((scale.big_mib as u64) << 20);
    }
    let own = dir.join(format!("{name}{threads}"));
    fs::create_dir(&own).with_context(|| format!("cannot make {}", own.display()))?;
    let target = Mounted::new(own.clone());
    let done = Prepared::new(&target, &job, 1)?.run(&target, Duration::from_secs_f64(scale.seconds))?;
    fs::remove_dir_all(&own).with_context(|| format!("cannot remove {}", own.display()))?;
    Ok(Done { units: done.ops as f64, seconds: done.seconds })
}
