//! `segno bench journal`: the metadata journal compared with the checkpoints of F2FS, on equal volumes with the same schedule.
mod arm;
mod concurrent_writes;
mod fill;
mod floor;
mod loss;
mod mode;
mod pace;
mod page;
mod programs;
mod published;
mod recovery;
mod row;
mod sqlite;
mod timed;
mod tree;
mod work;

use crate::budget::Budget;
use crate::machine::Machine;
use crate::options::Common;
use crate::page::Figure;
use crate::place::{Place, ensure_room};
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::alternate;
use anyhow::Result;
use arm::Arm;
use mode::Mode;
use published::Found;
use row::{JournalRow, Once, combine};
use serde::Serialize;
use work::Work;

/// Schema of a row.
pub const ROWS: &str = include_str!("../../schema/journal.json");
const MIB: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    /// Also SQLite, `git clone` and a build, through mounts (needs root)
    #[arg(long)]
    pub mount: bool,
    /// Only workloads whose name contains this: names, varmail, tree copy, fsync beside, recovery, cut,
    /// sqlite, git clone, cargo build
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub workload: String,
}

/// Amounts of work.
#[derive(Clone, Debug, Serialize)]
struct Scale {
    bytes: u64,
    ring_bytes: u64,
    cache_bytes: usize,
    rounds: usize,
    /// Duration of timed workloads.
    seconds: f64,
    /// Time that counts as a second of the schedule in timed workloads.
    second_ms: u64,
    /// Calls that count as one in workloads of a fixed amount.
    second_calls: u64,
    names_each: u32,
    threads: usize,
    varmail_files: u32,
    server_files: u32,
    data_bytes: u64,
    tree_files: u32,
    /// Crates of a build.
    build_crates: u32,
    /// Dirty data of other files during an fsync.
    beside_mib: Vec<u64>,
    beside_fsyncs: usize,
    /// Bytes in the journal at the power cut.
    recovery_mib: Vec<u64>,
    /// Files whose changes fill it.
    recovery_files: usize,
    /// Files, each synced, that are recovered in both modes.
    synced_files: Vec<usize>,
    /// Power cuts in each mode, and the rate of new files.
    cuts: usize,
    files_per_s: usize,
}

impl Scale {
    fn of(common: &Common) -> Self {
        if common.quick {
            return Self {
                bytes: 2 << 30,
                ring_bytes: 64 * MIB,
                cache_bytes: 1 << 30,
                rounds: common.rounds().min(2),
                seconds: 0.8,
                second_ms: 25,
                second_calls: 500,
                names_each: 2000,
                threads: 8,
                varmail_files: 500,
                server_files: 500,
                data_bytes: 32 * MIB,
                tree_files: 1000,
                build_crates: 4,
                beside_mib: Vec::new(),
                beside_fsyncs: 0,
                recovery_mib: Vec::new(),
                recovery_files: 0,
                synced_files: Vec::new(),
                cuts: 0,
                files_per_s: 0,
            };
        }
        Self {
            bytes: 16 << 30,
            ring_bytes: 256 * MIB,
            cache_bytes: 3 << 30,
            rounds: common.rounds().min(3),
            seconds: 8.0,
            second_ms: 25,
            second_calls: 500,
            names_each: 100_000,
            threads: 16,
            varmail_files: 1000,
            server_files: 5000,
            data_bytes: 256 * MIB,
            tree_files: 40_000,
            build_crates: 16,
            beside_mib: vec![0, 1024],
            beside_fsyncs: 3000,
            recovery_mib: vec![16, 64, 128, 225],
            recovery_files: 10_000,
            synced_files: vec![1000, 10_000, 100_000],
            cuts: 200,
            files_per_s: 100,
        }
    }
}

pub fn run(args: &Args) -> Result<Report> {
    let common = &args.common;
    let scale = Scale::of(common);
    let place = common.place(scale.bytes)?;
    if let Some(path) = place.path() {
        ensure_room(path, scale.bytes / 2)?;
    }
    let mut works = work::all(&scale)?;
    works.retain(|w| w.name().contains(&args.workload));
    let wanted = |name: &str| name.contains(&args.workload);
    let mut progress = Progress::new(0);
    progress.step("measuring the device");
    let storage = place.storage(Some(common.raw_time()))?;
    let mut report = Report::new("journal", common.seed, &scale, Machine::here(Some(storage)))?;
    let budget = common.budget();
    let mut rows = compare(&works, &place, &scale, &budget, common.seed, &mut report, &mut progress)?;
    if wanted("fsync beside unrelated dirty data") {
        rows.extend(concurrent_writes::measure(&place, &scale, &mut progress)?);
        report.notes.extend(concurrent_writes::note_floor(&place, &scale, &rows)?);
    }
    rows.iter().try_for_each(|row| report.push(row))?;
    page::fill(&mut report, &rows);
    let mut found = Found { rows: &rows, place: &place, lost: Vec::new(), recovered: Vec::new() };
    if wanted("recovery") && !scale.recovery_mib.is_empty() {
        recovery::by_log(&scale, &mut report, &mut progress)?;
        found.recovered = recovery::by_files(&scale, &mut report, &mut progress)?;
    }
    if wanted("power cut") && scale.cuts > 0 {
        found.lost = loss::measure(&scale, common.seed, &mut report, &mut progress)?;
    }
    report.figures.insert(0, Figure::Table(published::table(&found)));
    if args.mount {
        if wanted("sqlite") {
            sqlite::measure(scale.rounds, &mut report, &mut progress)?;
        }
        programs::measure(&scale, common.seed, &wanted, &mut report, &mut progress)?;
    }
    page::close(&mut report);
    Ok(report)
}

/// All workloads in all modes, in alternating rounds.
fn compare(
    works: &[Work],
    place: &Place,
    scale: &Scale,
    budget: &Budget,
    seed: u64,
    report: &mut Report,
    progress: &mut Progress,
) -> Result<Vec<JournalRow>> {
    let mut rows = Vec::new();
    // Each round covers everything, so that a quick run has one of each before two of any.
    let arms: Vec<(&Work, Mode)> = works.iter().flat_map(|w| Mode::ALL.map(|m| (w, m))).collect();
    let found = alternate(&arms, scale.rounds, budget, |(work, mode), round| {
        progress.step(&format!("{}: {}, round {} of {}", work.name(), mode.name(), round + 1, scale.rounds));
        let (parts, mkfs) = Arm { place, scale, work, seed: seed + round as u64 }.run(mode)?;
        report.mkfs = mkfs;
        Ok(parts)
    })?;
    report.note_rounds("all workloads", found.first().map_or(0, |(_, runs)| runs.len()), scale.rounds);
    for ((work, mode), rounds) in &found {
        for part in 0..rounds.first().map_or(0, Vec::len) {
            let runs: Vec<&Once> = rounds.iter().filter_map(|parts| parts.get(part)).collect();
            rows.push(combine(*mode, work.threads(), &runs));
        }
    }
    // The modes of a workload are adjacent.
    let order: Vec<String> = rows.iter().map(|r| r.workload.clone()).collect();
    let at = |r: &JournalRow| order.iter().position(|w| *w == r.workload);
    rows.sort_by_key(|r| (at(r), r.mode));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn scale() -> Scale {
        Scale {
            bytes: 512 * MIB,
            ring_bytes: 16 * MIB,
            cache_bytes: 64 << 20,
            rounds: 1,
            seconds: 0.05,
            second_ms: 2,
            second_calls: 1,
            names_each: 60,
            threads: 2,
            varmail_files: 40,
            server_files: 40,
            data_bytes: MIB,
            tree_files: 50,
            build_crates: 1,
            beside_mib: vec![0, 1],
            beside_fsyncs: 3,
            recovery_mib: vec![1],
            recovery_files: 300,
            synced_files: vec![10, 150],
            cuts: 5,
            files_per_s: 2,
        }
    }

    fn find<'a>(rows: &'a [JournalRow], workload: &str, mode: Mode) -> &'a JournalRow {
        rows.iter().find(|r| r.workload == workload && r.mode == mode).unwrap()
    }

    #[test]
    fn all_modes_do_all_workloads_and_rows_keep_their_contract() {
        let (scale, place) = (scale(), Place::memory(512 * MIB));
        let machine = Machine::here(Some(place.storage(None).unwrap()));
        let mut report = Report::new("journal", 1, &scale, machine).unwrap();
        let (mut progress, budget) = (Progress::new(0), Budget::unlimited());
        let works = work::all(&scale).unwrap();
        let mut rows = compare(&works, &place, &scale, &budget, 1, &mut report, &mut progress).unwrap();
        assert_eq!(rows.len(), 3 * (7 + 4 + 3 + 1));
        rows.extend(concurrent_writes::measure(&place, &scale, &mut progress).unwrap());
        assert!(concurrent_writes::note_floor(&place, &scale, &rows).unwrap().is_some());
        for r in &rows {
            assert!(r.ops > 0.0 && r.latency_us.max > 0.0, "{r:?}");
            assert!(r.latency_us.mean > 0.0 && r.latency_us.mean <= r.latency_us.max, "{r:?}");
            assert_eq!(r.log_bytes_per_op.is_some(), r.mode == Mode::Journal, "{r:?}");
            report.push(r).unwrap();
        }
        // The same operations, durable at the end, which takes a checkpoint without a journal.
        let (cp, journal) =
            (find(&rows, "create empty", Mode::Minute), find(&rows, "create empty", Mode::Journal));
        assert!(cp.checkpoints >= 1.0 && cp.blocked_us.count >= 1 && cp.commits == 0.0, "{cp:?}");
        assert!(journal.commits >= 1.0 && journal.log_bytes_per_op > Some(0.0), "{journal:?}");
        assert!(journal.phases_ms.as_ref().unwrap()["commit"] > 0.0, "{journal:?}");
        page::fill(&mut report, &rows);
        recovery::by_log(&scale, &mut report, &mut progress).unwrap();
        let recovered = recovery::by_files(&scale, &mut report, &mut progress).unwrap();
        let lost = loss::measure(&scale, 1, &mut report, &mut progress).unwrap();
        let found = Found { rows: &rows, place: &place, lost, recovered };
        report.figures.push(Figure::Table(published::table(&found)));
        page::close(&mut report);
        report.to_json(ROWS).unwrap();
        let page = crate::page::html(&report);
        for part in ["create empty", "47.6", "Recovery of synced files", "seed 1", "5.4 to 6.8"] {
            assert!(page.contains(part), "{part}");
        }
    }
}
