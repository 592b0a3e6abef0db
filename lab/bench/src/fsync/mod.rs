//! `segno bench fsync`: per-inode lists of dirty nodes compared with the kernel's search through all dirty nodes.
mod arm;
mod other_inodes;
mod page;
mod peers;
mod row;

use crate::budget::Budget;
use crate::machine::Machine;
use crate::options::Common;
use crate::place::{Place, ensure_room};
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::{alternate, ratio};
use crate::work::job::Job;
use anyhow::Result;
use arm::Arm;
use peers::Peer;
use row::{FsyncRow, Once, combine};
use segno_engine::options::{FsyncLookup, FsyncMode};
use serde::Serialize;
use std::time::Duration;

/// Schema of a row.
pub const ROWS: &str = include_str!("../../schema/fsync.json");

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    /// Also run through mounts, compared with ext4, XFS and fuse2fs (needs root)
    #[arg(long)]
    pub mount: bool,
    /// Only workloads whose name contains this: varmail 10000, 4 KiB, strict, foreign, mount
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub workload: String,
}

/// Amounts of work.
#[derive(Clone, Debug, Serialize)]
struct Scale {
    bytes: u64,
    seconds: f64,
    rounds: usize,
    varmail_files: Vec<u32>,
    varmail_threads: usize,
    write_threads: usize,
    write_bytes_each: u64,
    foreign: Vec<usize>,
    foreign_fsyncs: usize,
    /// Interval of commits in seconds.
    commit: u32,
}

impl Scale {
    fn of(common: &Common) -> Self {
        let (quick, rounds) = (common.quick, common.rounds());
        if quick {
            return Self {
                bytes: 4 << 30,
                seconds: 0.8,
                rounds: rounds.min(3),
                varmail_files: vec![1000, 10_000],
                varmail_threads: 16,
                write_threads: 4,
                write_bytes_each: 32 << 20,
                foreign: vec![1000, 20_000],
                foreign_fsyncs: 100,
                commit: 60,
            };
        }
        Self {
            bytes: 16 << 30,
            seconds: 8.0,
            rounds,
            varmail_files: vec![1000, 10_000, 50_000],
            varmail_threads: 16,
            write_threads: 4,
            write_bytes_each: 512 << 20,
            foreign: vec![1000, 100_000, other_inodes::affordable(1_000_000)],
            foreign_fsyncs: 300,
            commit: 60,
        }
    }
}

/// A workload in this process: its name, what it does and in which mode.
struct Case {
    name: String,
    job: Job,
    fsync_mode: FsyncMode,
}

fn mode_name(mode: FsyncMode) -> &'static str {
    match mode {
        FsyncMode::Strict => "strict",
        FsyncMode::Posix => "posix",
        FsyncMode::Nobarrier => "nobarrier",
    }
}

fn cases(scale: &Scale, seed_jobs: [Job; 2]) -> Vec<Case> {
    let [varmail, writes] = seed_jobs;
    let mut all = Vec::new();
    for &files in &scale.varmail_files {
        let mut job = varmail.clone();
        job.threads = scale.varmail_threads;
        if let Some(flow) = &mut job.flow {
            flow.files = files;
        }
        all.push(Case { name: format!("varmail {files} files"), job, fsync_mode: FsyncMode::Posix });
    }
    let mut job = writes;
    job.threads = scale.write_threads;
    if let Some(data) = &mut job.data {
        data.size = scale.write_bytes_each;
    }
    all.push(Case {
        name: "4 KiB writes, fsync every 32".into(),
        job: job.clone(),
        fsync_mode: FsyncMode::Posix,
    });
    all.push(Case {
        name: "4 KiB writes, fsync every 32, strict".into(),
        job,
        fsync_mode: FsyncMode::Strict,
    });
    all
}

pub fn run(args: &Args) -> Result<Report> {
    let common = &args.common;
    let scale = Scale::of(common);
    let place = common.place(scale.bytes)?;
    if let Some(path) = place.path() {
        ensure_room(path, scale.bytes / 2)?;
    }
    let budget = common.budget();
    let mut cases = cases(&scale, [Job::named("varmail")?, Job::named("fsync32")?]);
    cases.retain(|c| c.name.contains(&args.workload));
    let mut progress = Progress::new(0);
    progress.step("measuring the device");
    let storage = place.storage(Some(common.raw_time()))?;
    let mut report = Report::new("fsync", common.seed, &scale, Machine::here(Some(storage)))?;
    let mut rows = Vec::new();
    // The rest of a quick run's time is used for dirty nodes of other files.
    let share = 0.75 / cases.len().max(1) as f64;
    for case in &cases {
        rows.extend(compare(
            case,
            &place,
            &scale,
            &budget.fraction(share),
            common.seed,
            &mut report,
            &mut progress,
        )?);
    }
    if "foreign dirty nodes".contains(&args.workload) {
        rows.extend(foreign_rows(&scale, common, &mut report, &mut progress)?);
    }
    if args.mount {
        rows.extend(mounted(&scale, common, &mut report, &mut progress)?);
    }
    for row in &rows {
        report.push(row)?;
    }
    page::fill(&mut report, &rows);
    Ok(report)
}

/// List and global search in alternating rounds.
fn compare(
    case: &Case,
    place: &Place,
    scale: &Scale,
    budget: &Budget,
    seed: u64,
    report: &mut Report,
    progress: &mut Progress,
) -> Result<Vec<FsyncRow>> {
    let arms = [FsyncLookup::List, FsyncLookup::Global];
    let time = Duration::from_secs_f64(scale.seconds);
    let found = alternate(&arms, scale.rounds, budget, |lookup, round| {
        progress.step(&format!("{}: {}, round {} of {}", case.name, lookup.name(), round + 1, scale.rounds));
        let arm = Arm { place, job: &case.job, fsync_mode: case.fsync_mode, time, seed: seed + round as u64 };
        let (once, mkfs) = arm.run(lookup)?;
        report.mkfs = mkfs;
        Ok(once)
    })?;
    report.note_rounds(&case.name, found.first().map_or(0, |(_, runs)| runs.len()), scale.rounds);
    if let [(_, list), (_, global)] = found.as_slice() {
        report.notes.push(gain(&case.name, list, global));
    }
    let row = |(lookup, runs): &(FsyncLookup, Vec<Once>)| {
        let mode = mode_name(case.fsync_mode);
        combine(&case.name, "in-process", Some(lookup.name()), mode, case.job.threads, runs)
    };
    Ok(found.iter().map(row).collect())
}

/// Gain of the list, as ratios within each round.
fn gain(name: &str, list: &[Once], global: &[Once]) -> String {
    let of = |runs: &[Once], f: fn(&Once) -> f64| runs.iter().map(f).collect::<Vec<_>>();
    let ops = ratio(&of(list, |o| o.ops_per_s), &of(global, |o| o.ops_per_s));
    let time = ratio(&of(list, |o| o.fsync_us().avg), &of(global, |o| o.fsync_us().avg));
    let percent = |r: f64| format!("{:+.0} %", (r - 1.0) * 100.0);
    format!(
        "{name}: with the list {} operations a second ({} to {} over {} rounds) and {} fsync latency; throughput times \
         latency changes by {}, 0 would be throughput that follows the inverse of latency.",
        percent(ops.median),
        percent(ops.min),
        percent(ops.max),
        ops.n,
        percent(time.median),
        percent(ops.median * time.median),
    )
}

fn foreign_rows(
    scale: &Scale,
    common: &Common,
    report: &mut Report,
    progress: &mut Progress,
) -> Result<Vec<FsyncRow>> {
    progress.step("foreign dirty nodes");
    let most = scale.foreign.iter().copied().max().unwrap_or(0);
    if !common.quick && most < 1_000_000 {
        report.notes.push(format!("Memory allows {most} foreign dirty nodes, not 1 000 000."));
    }
    let place = common.place(other_inodes::volume_bytes(most))?;
    let turns = if common.quick { 2 } else { scale.rounds.min(3) };
    let found = other_inodes::measure(&place, &scale.foreign, turns, scale.foreign_fsyncs, progress)?;
    let rows: Vec<FsyncRow> = found
        .iter()
        .map(|f| {
            let name = format!("foreign dirty nodes {}", f.nodes);
            combine(&name, "in-process", Some(f.lookup.name()), "posix", 1, &f.runs)
        })
        .collect();
    let lists: Vec<&FsyncRow> = rows.iter().filter(|r| r.mode == Some("list")).collect();
    if let (Some(few), Some(many)) = (lists.first(), lists.last()) {
        let p50 = |r: &FsyncRow| r.lookup_ns.map_or(0.0, |l| l.p50);
        report.notes.push(format!(
            "Finding the nodes of a file takes {:.0} ns with {} foreign dirty nodes and {:.0} ns with {} (medians).",
            p50(few),
            scale.foreign.first().copied().unwrap_or(0),
            p50(many),
            most
        ));
    }
    Ok(rows)
}

/// The workloads through mounts, in alternating rounds.
fn mounted(
    scale: &Scale,
    common: &Common,
    report: &mut Report,
    progress: &mut Progress,
) -> Result<Vec<FsyncRow>> {
    let (peers, missing) = peers::available();
    report.notes.extend(missing);
    let mut varmail = Job::named("varmail")?;
    if let Some(flow) = &mut varmail.flow {
        flow.files = 1000;
    }
    let mut alone = Job::named("fsync32")?;
    alone.threads = 1;
    if let Some(data) = &mut alone.data {
        (data.size, data.fsync_every) = (64 << 20, 1);
    }
    let mut rows = Vec::new();
    for (name, job) in [("varmail 1000 files", varmail), ("4 KiB write and fsync", alone)] {
        let time = Duration::from_secs_f64(scale.seconds.min(4.0));
        let found = alternate(&peers, scale.rounds.min(3), &common.budget(), |peer, round| {
            progress.step(&format!("{name} through mounts: {}, round {}", peer.name, round + 1));
            peer.run(scale.bytes, &job, time, common.seed + round as u64)
        })?;
        let done = found.first().map_or(0, |(_, runs)| runs.len());
        report.note_rounds(&format!("{name} through mounts"), done, scale.rounds.min(3));
        let row = |(peer, runs): &(Peer, Vec<Once>)| {
            let mode = peer.is_segno().then_some("list");
            combine(name, peer.name, mode, peer.fsync_mode, job.threads, runs)
        };
        rows.extend(found.iter().map(row));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale() -> Scale {
        Scale {
            bytes: 512 << 20,
            seconds: 0.1,
            rounds: 1,
            varmail_files: vec![200],
            varmail_threads: 4,
            write_threads: 2,
            write_bytes_each: 4 << 20,
            foreign: vec![100, 1000],
            foreign_fsyncs: 20,
            commit: 60,
        }
    }

    #[test]
    fn the_list_searches_what_it_writes_and_rows_keep_their_contract() {
        let scale = scale();
        let place = Place::memory(scale.bytes);
        let machine = Machine::here(Some(place.storage(None).unwrap()));
        let mut report = Report::new("fsync", 1, &scale, machine).unwrap();
        let mut progress = Progress::new(0);
        let budget = Budget::unlimited();
        let mut rows = Vec::new();
        for case in cases(&scale, [Job::named("varmail").unwrap(), Job::named("fsync32").unwrap()]) {
            rows.extend(compare(&case, &place, &scale, &budget, 1, &mut report, &mut progress).unwrap());
        }
        let found =
            other_inodes::measure(&place, &scale.foreign, 1, scale.foreign_fsyncs, &mut progress).unwrap();
        for f in &found {
            let name = format!("foreign dirty nodes {}", f.nodes);
            rows.push(combine(&name, "in-process", Some(f.lookup.name()), "posix", 1, &f.runs));
        }
        for r in &rows {
            let (searched, written) = (r.searched_per_fsync.unwrap(), r.written_per_fsync.unwrap());
            assert!(r.ops_per_s > 0.0 && written > 0.0, "{r:?}");
            match r.mode {
                Some("list") => assert_eq!(searched, written, "{r:?}"),
                // More where other files have dirty nodes at that time: below, where they are sure to.
                _ if r.fsync_mode == "posix" => assert!(searched >= written, "{r:?}"),
                _ => {}
            }
            report.push(r).unwrap();
        }
        let global = |name: &str| {
            let row = rows.iter().find(|r| r.workload == name && r.mode == Some("global")).unwrap();
            row.searched_per_fsync.unwrap()
        };
        assert!(global("foreign dirty nodes 1000") >= 1000.0 && global("foreign dirty nodes 100") >= 100.0);
        page::fill(&mut report, &rows);
        report.to_json(ROWS).unwrap();
        assert!(crate::page::html(&report).contains("foreign dirty nodes 1000"));
    }
}
