//! `segno bench peers`: the same work through the mount of segno and of other file systems, each on the same image in
//! alternating rounds.
mod data;
mod files;
mod fio;
mod page;
mod pairs;
mod personality;
mod rows;
mod steps;
mod threads;
mod tree;
mod usage;

use crate::budget::Budget;
use crate::machine::Machine;
use crate::mounts::{FileSystem, Site};
use crate::options::Common;
use crate::place::ensure_room;
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::{Sample, Share, alternate, ratio, share};
use anyhow::{Context, Result, ensure};
use rows::{Done, Group, ROWS as WORK, Scale};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use usage::{Found, Session};

/// Schema of a row.
pub const ROWS: &str = include_str!("../../schema/peers.json");
const BYTES: u64 = 6 << 30;
/// Space that a file of the scale takes in all rows together.
const FILE_BYTES: u64 = 40 << 10;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    /// Compare segno with these only [default: all that can be mounted here, except no-journal, writeback-cache and ceiling]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub peers: Vec<FileSystem>,
    /// Options of segno's mount, such as journal=off [default: those of root's mounts]
    #[arg(long, value_name = "OPTIONS", default_value = "allow_other", hide_default_value = true)]
    pub options: String,
    /// Only these rows [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub groups: Vec<Group>,
    /// Numbers of threads of the groups threads and personalities
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4,16",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Vec<u16>,
    /// Number of files [default: 10,000, or 2,000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub files: Option<u64>,
    /// A job file of fio as one more row, its operations per second; can be repeated
    #[arg(long, value_name = "FILE")]
    pub fio: Vec<PathBuf>,
}

/// A row with a number of threads, as it is run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    label: String,
    unit: &'static str,
    metadata: bool,
    threads: usize,
}

enum Todo {
    Row(&'static rows::Row),
    Fio(PathBuf),
}

/// Results by row.
type Results = BTreeMap<String, Found>;

#[derive(Debug, Serialize)]
struct Row {
    row: String,
    unit: &'static str,
    metadata: bool,
    threads: usize,
    peer: &'static str,
    rates: Vec<f64>,
    median: f64,
    spread_percent: f64,
    segno_ratio: Option<f64>,
    segno_share: Option<Share>,
    cpu_seconds: f64,
    rss_mib: Option<f64>,
    server_cpu_us: Option<f64>,
    requests: Option<f64>,
    requests_by_operation: Option<BTreeMap<String, f64>>,
    server_us: Option<f64>,
    flushes: Option<f64>,
}

pub fn run(args: &Args) -> Result<Report> {
    let common = &args.common;
    ensure!(rustix::process::geteuid().is_root(), "mounting other file systems takes root");
    let scale = scale(args);
    let bytes = BYTES.max(scale.files as u64 * FILE_BYTES);
    let place = common.place(bytes)?;
    let image = place.path().context("it takes an image file")?;
    let storage = place.storage(Some(common.raw_time()))?;
    ensure!(storage.kind == "image", "{} is no image file", storage.name);
    ensure_room(image, bytes)?;
    let site = Site::new(Some(image), bytes, &args.options)?;
    let (peers, mut notes) = chosen(&args.peers);
    let plan = plan(args)?;
    let mut progress = Progress::new(peers.len() * common.rounds());
    tree::prepare(&site.root, scale)?;
    let found = alternate(&peers, common.rounds(), &Budget::unlimited(), |peer, round| {
        progress.step(&format!("{}, round {}", peer.name(), round + 1));
        one_round(peer, &site, scale, &plan, &mut notes)
    })?;
    drop(progress);
    let config =
        json!({ "bytes": bytes, "rounds": common.rounds(), "scale": scale, "options": args.options });
    let mut report = Report::new("peers", common.seed, &config, Machine::here(Some(storage)))?;
    report.notes = notes;
    let steps: Vec<&Step> = plan.iter().map(|(step, _)| step).collect();
    let rows = compared(&steps, &found);
    rows.iter().try_for_each(|row| report.push(row))?;
    page::fill(&mut report, &steps, &rows, common.rounds());
    Ok(report)
}

fn scale(args: &Args) -> Scale {
    let mut scale = if args.common.quick { Scale::QUICK } else { Scale::FULL };
    scale.files = args.files.map_or(scale.files, |n| n as usize);
    scale
}

/// What is run on each file system, in order.
fn plan(args: &Args) -> Result<Vec<(Step, Todo)>> {
    let mut plan = Vec::new();
    for row in WORK.iter().filter(|r| args.groups.is_empty() || args.groups.contains(&r.group)) {
        let step = |label, threads| Step { label, unit: row.unit, metadata: row.metadata, threads };
        if row.is_threaded() {
            let of = |&t: &u16| (step(format!("{}, {t} threads", row.name), t.into()), Todo::Row(row));
            plan.extend(args.threads.iter().map(of));
        } else {
            plan.push((step(row.name.into(), 1), Todo::Row(row)));
        }
    }
    for file in &args.fio {
        // Programs run in other directories.
        let path = file.canonicalize().with_context(|| format!("job file {}", file.display()))?;
        let label = format!("fio {}", file.display());
        plan.push((Step { label, unit: "IOPS", metadata: false, threads: 1 }, Todo::Fio(path)));
    }
    ensure!(!plan.is_empty(), "nothing is left to run");
    Ok(plan)
}

/// Segno and the selected peers that are available, and why the others are not.
fn chosen(asked: &[FileSystem]) -> (Vec<FileSystem>, Vec<String>) {
    let by_default = |p: &FileSystem| asked.is_empty() && !p.is_on_request();
    let wanted = |p: &FileSystem| *p == FileSystem::Segno || by_default(p) || asked.contains(p);
    let (mut here, mut notes) = (Vec::new(), Vec::new());
    for peer in FileSystem::ALL.into_iter().filter(wanted) {
        match peer.missing() {
            None => here.push(peer),
            Some(why) => notes.push(format!("{} is left out: {why}.", peer.name())),
        }
    }
    (here, notes)
}

/// The whole plan on a fresh volume. Rows that a peer does not support are noted; segno must support all.
fn one_round(
    peer: FileSystem,
    site: &Site,
    scale: Scale,
    plan: &[(Step, Todo)],
    notes: &mut Vec<String>,
) -> Result<Results> {
    site.format(peer)?;
    if let Err(e) = site.mount(peer) {
        ensure!(peer != FileSystem::Segno, e);
        notes.push(format!("{} is left out: it cannot be mounted: {e:#}.", peer.name()));
        return Ok(Results::new());
    }
    let mut results = Results::new();
    let done = plan.iter().try_for_each(|(step, todo)| {
        let found = prepare(todo, peer, site, scale)
            .and_then(|()| Found::of(peer, site, || work(todo, step.threads, &site.dir(), scale)));
        match found {
            Ok(found) => drop(results.insert(step.label.clone(), found)),
            Err(e) if peer == FileSystem::Segno => return Err(e.context(format!("segno: {}", step.label))),
            Err(e) => notes.push(format!("{}: {e:#}.", peer.name())),
        }
        Ok(())
    });
    let unmounted = site.unmount(peer);
    done?;
    unmounted?;
    Ok(results)
}

fn prepare(todo: &Todo, peer: FileSystem, site: &Site, scale: Scale) -> Result<()> {
    let Todo::Row(row) = todo else { return Ok(()) };
    let prepared = row.prepare(&site.dir(), scale);
    if row.cold {
        site.cool(peer)?;
    }
    // A row pays neither for writes of the previous one nor for the remount.
    site.sync()?;
    prepared
}

fn work(todo: &Todo, threads: usize, dir: &Path, scale: Scale) -> Result<Done> {
    match todo {
        Todo::Row(row) => row.run(dir, scale, threads),
        Todo::Fio(file) => fio::run(dir, file),
    }
}

/// A line for each step and peer that has figures.
fn compared(steps: &[&Step], found: &[(FileSystem, Vec<Results>)]) -> Vec<Row> {
    let of = |peer: FileSystem, row: &str| -> Vec<Found> {
        let rounds = found.iter().filter(|(p, _)| *p == peer).flat_map(|(_, rounds)| rounds);
        rounds.filter_map(|r| r.get(row).cloned()).collect()
    };
    let rates = |found: &[Found]| -> Vec<f64> { found.iter().map(|f| f.rate).collect() };
    let mut rows = Vec::new();
    for step in steps {
        let ours = rates(&of(FileSystem::Segno, &step.label));
        for peer in found.iter().map(|(p, _)| *p) {
            let runs = of(peer, &step.label);
            if runs.is_empty() {
                continue;
            }
            let theirs = rates(&runs);
            let sample = Sample::of(&theirs);
            // Rounds that the peer could not complete have no counterpart.
            let paired = peer != FileSystem::Segno && theirs.len() == ours.len();
            let median = |of: &dyn Fn(&Found) -> Option<f64>| {
                let found: Vec<f64> = runs.iter().filter_map(of).collect();
                (!found.is_empty()).then(|| Sample::of(&found).median)
            };
            let session = |of: fn(&Session) -> f64| median(&|f| f.session.as_ref().map(of));
            let operations: BTreeSet<&String> =
                runs.iter().filter_map(|f| f.session.as_ref()).flat_map(|s| s.requests.keys()).collect();
            let of_operation = |op: &String| {
                let count = median(&|f| Some(f.session.as_ref()?.requests.get(op).copied().unwrap_or(0.0)));
                (op.clone(), count.unwrap_or_default())
            };
            let requests_by_operation = operations.into_iter().map(of_operation).collect();
            rows.push(Row {
                row: step.label.clone(),
                unit: step.unit,
                metadata: step.metadata,
                threads: step.threads,
                peer: peer.name(),
                median: sample.median,
                spread_percent: sample.spread_percent(),
                segno_ratio: paired.then(|| ratio(&ours, &theirs).median),
                segno_share: share(&ours, &theirs).filter(|_| paired),
                rates: theirs,
                cpu_seconds: median(&|f| Some(f.cpu_seconds)).unwrap_or_default(),
                rss_mib: runs.iter().filter_map(|f| f.rss_mib).max_by(f64::total_cmp),
                server_cpu_us: median(&|f| f.server_cpu_us),
                requests: session(Session::total),
                requests_by_operation: peer.counts_requests().then_some(requests_by_operation),
                server_us: session(|s| s.server_us),
                flushes: session(|s| s.flushes),
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_row_runs_in_any_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mnt = dir.path().join("mnt");
        std::fs::create_dir(&mnt).unwrap();
        tree::prepare(dir.path(), Scale::TINY).unwrap();
        for row in WORK {
            for threads in if row.is_threaded() { 1..=3 } else { 1..=1 } {
                let done = row.prepare(&mnt, Scale::TINY).and_then(|()| row.run(&mnt, Scale::TINY, threads));
                match done {
                    Ok(done) => assert!(done.units > 0.0 && done.seconds > 0.0, "{}", row.name),
                    // A file system in memory may have no direct I/O, and sqlite3 may not be installed.
                    Err(e) => assert!(row.name.contains("direct") || row.name.contains("SQLite"), "{e:#}"),
                }
            }
        }
    }

    #[test]
    fn ratios_are_within_rounds_and_rows_keep_their_contract() {
        let found = |rate| {
            let requests = BTreeMap::from([("lookup".to_owned(), 1.0), ("create".to_owned(), 2.0)]);
            let session = Some(Session { requests, server_us: 4.5, flushes: 0.25 });
            Found { rate, cpu_seconds: 0.5, rss_mib: Some(30.0), server_cpu_us: Some(7.5), session }
        };
        let rates = |r: f64| {
            Results::from([("create empty".to_owned(), found(r)), ("stat cold".to_owned(), found(5.0))])
        };
        let found = [
            (FileSystem::Segno, vec![rates(20.0), rates(60.0), rates(30.0)]),
            (FileSystem::Ceiling, vec![rates(40.0), rates(120.0), rates(60.0)]),
            (FileSystem::Ext4, vec![rates(10.0), rates(20.0), rates(10.0)]),
            // Failed in one round.
            (FileSystem::Ntfs3g, vec![rates(10.0), Results::new(), rates(10.0)]),
        ];
        let step = |label: &str| Step { label: label.into(), unit: "files/s", metadata: true, threads: 1 };
        let steps = [step("create empty"), step("stat cold")];
        let steps: Vec<&Step> = steps.iter().collect();
        let rows = compared(&steps, &found);
        let of = |peer: &str| rows.iter().find(|r| r.row == "create empty" && r.peer == peer).unwrap();
        assert_eq!((of("segno").median, of("segno").segno_ratio), (30.0, None));
        assert_eq!((of("ext4").segno_ratio, of("ntfs-3g").segno_ratio), (Some(3.0), None));
        let share = of("ceiling").segno_share.unwrap();
        assert!([share.mean, share.low, share.high].iter().all(|s| (s - 0.5).abs() < 1e-9), "{share:?}");
        assert_eq!(of("ceiling").requests_by_operation.as_ref().unwrap()["create"], 2.0);
        assert_eq!((of("ext4").requests_by_operation.is_none(), of("ntfs-3g").segno_share), (true, None));
        let mut report = Report::new("peers", 1, &json!({}), Machine::here(None)).unwrap();
        rows.iter().for_each(|row| report.push(row).unwrap());
        page::fill(&mut report, &steps, &rows, 3);
        report.to_json(ROWS).unwrap();
        let text = crate::page::text(&report);
        for part in [
            "create empty",
            "files/s",
            "ntfs-3g",
            "± ",
            "Geometric mean of segno/ext4 over 2 rows: 1.73, with every row capped at 2 1.41",
            "0.50 s, 30 MiB",
            "3.00",
            "4.50",
            "0.50 (0.50 to 0.50)",
            "7.50",
            "Segno has 0.71 of the ceiling",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn the_plan_has_a_step_for_each_number_of_threads() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let plan_of = |line: &str| plan(&<Line as clap::Parser>::parse_from(line.split(' ')).args);
        let labels = |line: &str| -> Vec<String> {
            plan_of(line).unwrap().into_iter().map(|(step, _)| step.label).collect()
        };
        assert_eq!(labels("x --groups databases"), ["SQLite WAL transactions", "SQLite DELETE transactions"]);
        let threaded = labels("x --groups personalities --threads 2,8");
        assert_eq!(threaded[..2], ["varmail, 2 threads", "varmail, 8 threads"]);
        let all = labels("x");
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len(), "labels are keys");
        let missing = plan_of("x --fio /no/such.fio").err().unwrap();
        assert!(format!("{missing:#}").contains("/no/such.fio"));
    }

    #[test]
    fn peers_are_chosen_by_the_names_they_are_shown_with() {
        for peer in FileSystem::ALL {
            assert_eq!(FileSystem::from_str(peer.name(), false), Ok(peer));
        }
        let (here, notes) = chosen(&[FileSystem::Ntfs3g]);
        assert_eq!(here.first(), Some(&FileSystem::Segno));
        assert_eq!(here.len() + notes.len(), 2);
    }
}
