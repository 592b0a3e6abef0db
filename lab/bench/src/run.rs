//! `segno bench run`: a workload from a description.
use crate::machine::Machine;
use crate::options::Common;
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::Sample;
use crate::work::fs::{Fs, InProcess, Mounted};
use crate::work::job::Job;
use crate::work::{Prepared, metadata, sqlite};
use anyhow::{Context, Result, ensure};
use segno_engine::{Background, MountOptions, Volume};
use segno_mkfs::MkfsOptions;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Schema of a row.
pub const ROWS: &str = include_str!("../schema/run.json");
const BYTES: u64 = 16 << 30;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    /// An empty directory of a mounted file system to work in, in place of a fresh volume in this process
    #[arg(long, value_name = "DIR", conflicts_with = "image")]
    pub mount: Option<PathBuf>,
    /// A TOML file, or one of varmail, fileserver, webserver, webproxy, oltp, fsync32, metadata, sqlite
    pub job: String,
}

#[derive(Serialize)]
struct Row {
    workload: String,
    step: String,
    ops_per_s: f64,
    spread_percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mib_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fsync_us: Option<BTreeMap<&'static str, f64>>,
    rounds: usize,
}

/// Result of one step in one round.
#[derive(Clone, Debug)]
struct Found {
    step: String,
    ops_per_s: f64,
    mib_per_s: Option<f64>,
    fsync_us: Option<[f64; 3]>,
}

pub fn run(args: &Args) -> Result<Report> {
    let (common, job) = (&args.common, Job::named(&args.job)?);
    let mut progress = Progress::new(common.rounds());
    let budget = common.budget();
    let mut rounds: Vec<Vec<Found>> = Vec::new();
    let mut mkfs = String::new();
    let place = if args.mount.is_none() { Some(common.place(BYTES)?) } else { None };
    while rounds.len() < common.rounds() && (rounds.is_empty() || budget.has_time_for_another(rounds.len())) {
        progress.step(&format!("{}, round {}", job.name, rounds.len() + 1));
        let seed = common.seed + rounds.len() as u64;
        rounds.push(match (&args.mount, &place) {
            (Some(dir), _) => in_directory(dir, &job, common.quick, seed, rounds.len())?,
            (None, Some(place)) => {
                let (device, how) = place.format(&MkfsOptions::default())?;
                mkfs = how;
                let volume = Volume::mount(device, MountOptions::default())?;
                let background = Background::start(&volume)?;
                let found = work(&InProcess::new(volume.clone()), None, &job, common.quick, seed)?;
                drop(background);
                volume.unmount()?;
                found
            }
            (None, None) => Vec::new(),
        });
    }
    let storage = place.as_ref().map(|p| p.storage(Some(common.raw_time()))).transpose()?;
    let mut report = Report::new("run", common.seed, &job, Machine::here(storage))?;
    report.mkfs = mkfs;
    report.note_rounds(&job.name, rounds.len(), common.rounds());
    for i in 0..rounds.first().map_or(0, Vec::len) {
        let all: Vec<&Found> = rounds.iter().filter_map(|r| r.get(i)).collect();
        report.push(&combine(&job.name, &all))?;
    }
    Ok(report)
}

fn combine(workload: &str, all: &[&Found]) -> Row {
    let median = |f: &dyn Fn(&Found) -> Option<f64>| {
        let values: Vec<f64> = all.iter().filter_map(|x| f(x)).collect();
        (!values.is_empty()).then(|| Sample::of(&values).median)
    };
    let ops = Sample::of(&all.iter().map(|f| f.ops_per_s).collect::<Vec<_>>());
    let names = ["avg", "p50", "p99"];
    let fsync_us: BTreeMap<&'static str, f64> = names
        .iter()
        .enumerate()
        .filter_map(|(i, &n)| Some((n, median(&|f| f.fsync_us.and_then(|u| u.get(i).copied()))?)))
        .collect();
    Row {
        workload: workload.to_owned(),
        step: all.first().map_or(String::new(), |f| f.step.clone()),
        ops_per_s: ops.median,
        spread_percent: ops.spread_percent(),
        mib_per_s: median(&|f| f.mib_per_s),
        fsync_us: (!fsync_us.is_empty()).then_some(fsync_us),
        rounds: all.len(),
    }
}

/// In a directory of its own, which is removed afterwards.
fn in_directory(
    dir: &std::path::Path,
    job: &Job,
    quick: bool,
    seed: u64,
    round: usize,
) -> Result<Vec<Found>> {
    let own = dir.join(format!("segno-bench-{}-{round}", std::process::id()));
    std::fs::create_dir(&own).with_context(|| format!("cannot make {}", own.display()))?;
    let found = work(&Mounted::new(own.clone()), Some(&own), job, quick, seed);
    let removed = std::fs::remove_dir_all(&own).with_context(|| format!("cannot remove {}", own.display()));
    let found = found?;
    removed?;
    Ok(found)
}

fn work(fs: &dyn Fs, dir: Option<&std::path::Path>, job: &Job, quick: bool, seed: u64) -> Result<Vec<Found>> {
    let plain =
        |step: &str, ops_per_s| Found { step: step.into(), ops_per_s, mib_per_s: None, fsync_us: None };
    if let Some(m) = &job.metadata {
        let rates = metadata::run(fs, m, job.threads)?;
        let found = |r: &metadata::StepRate| plain(&format!("{:?}", r.step), r.ops as f64 / r.seconds);
        return Ok(rates.iter().map(found).collect());
    }
    if let Some(s) = &job.sqlite {
        ensure!(dir.is_some(), "sqlite needs a mounted file system: --mount DIR");
        let rates = sqlite::run(dir.unwrap_or(std::path::Path::new(".")), s)?;
        return Ok(rates.iter().map(|(journal, rate)| plain(journal, *rate)).collect());
    }
    let seconds = job.seconds.unwrap_or(1.0);
    let time = Duration::from_secs_f64(if quick { seconds.min(2.0) } else { seconds });
    let done = Prepared::new(fs, job, seed)?.run(fs, time)?;
    let us = |q: f64| done.fsyncs.quantile(q) as f64 / 1000.0;
    Ok(vec![Found {
        step: "all".into(),
        ops_per_s: done.ops as f64 / done.seconds,
        mib_per_s: Some(done.bytes as f64 / 1_048_576.0 / done.seconds),
        fsync_us: (done.fsyncs.count() > 0).then(|| [done.fsyncs.mean() / 1000.0, us(0.5), us(0.99)]),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_job_runs_in_a_volume_and_in_a_directory() {
        let jobs = [
            "name = 'flow'\nthreads = 2\nseconds = 0.05\n[flow]\nfiles = 20\npresent = 0.5\nsize = 9000\nappend = 3000\n\
             steps = ['create', 'fill', 'append', 'fsync', 'close', 'open', 'read', 'close', 'delete', 'stat', 'log']",
            "name = 'data'\nthreads = 2\nseconds = 0.05\n[data]\nsize = 1048576\nblock = 4096\nrandom = true\nshared = true\n\
             read_percent = 50\nfsync_every = 8",
            "name = 'metadata'\nthreads = 2\n[metadata]\neach = 10\n\
             steps = ['mkdir', 'create', 'list', 'unlink', 'create-4k', 'copy-4k', 'unlink-4k', 'rmdir']",
        ];
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        for (i, text) in jobs.iter().enumerate() {
            let file = dir.path().join(format!("job{i}.toml"));
            std::fs::write(&file, text).unwrap();
            for mount in [None, Some(dir.path().to_owned())] {
                let common = Common {
                    quick: true,
                    json: false,
                    output: None,
                    image: mount.is_none().then(|| image.clone()),
                    force: mount.is_none(),
                    seed: 3,
                    rounds: 1,
                };
                let report = run(&Args { common, mount, job: file.display().to_string() }).unwrap();
                report.to_json(ROWS).unwrap();
                for row in &report.results {
                    assert!(row.0["ops_per_s"].as_f64().unwrap() > 0.0, "{row:?}");
                }
            }
        }
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            4,
            "work in a directory leaves nothing behind"
        );
    }
}
