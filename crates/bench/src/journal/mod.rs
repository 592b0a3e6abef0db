//! `segno bench journal`: the metadata journal compared with plain checkpoints, on equal volumes with equal commits.
mod arm;
mod concurrent_writes;
mod fill;
mod floor;
mod loss;
mod pace;
mod page;
mod programs;
mod recovery;
mod row;
mod sqlite;
mod timed;
mod tree;
mod work;

use crate::budget::Budget;
use crate::machine::Machine;
use crate::options::Common;
use crate::place::{Place, ensure_room};
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::alternate;
use anyhow::Result;
use arm::{Arm, Mode};
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
    /// Only workloads whose name contains this: names, varmail, tree copy, fsync beside, recovery, kill,
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
    /// Commit interval in both modes.
    commit_ms: u64,
    /// One in this many commits to the journal is a checkpoint, which applies it.
    apply_every: u32,
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
    kills: usize,
    /// Longest pause between two.
    kill_pause_ms: u64,
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
                commit_ms: 100,
                apply_every: 3,
                names_each: 1000,
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
                kills: 0,
                kill_pause_ms: 0,
            };
        }
        Self {
            bytes: 16 << 30,
            ring_bytes: 256 * MIB,
            cache_bytes: 3 << 30,
            rounds: common.rounds().min(3),
            seconds: 10.0,
            commit_ms: 1000,
            apply_every: 5,
            names_each: 20_000,
            threads: 16,
            varmail_files: 1000,
            server_files: 5000,
            data_bytes: 256 * MIB,
            tree_files: 20_000,
            build_crates: 16,
            beside_mib: vec![0, 1024],
            beside_fsyncs: 3000,
            recovery_mib: vec![16, 64, 128, 225],
            recovery_files: 10_000,
            kills: 20,
            kill_pause_ms: 3000,
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
    if wanted("recovery") && !scale.recovery_mib.is_empty() {
        recovery::measure(&scale, &mut report, &mut progress)?;
    }
    if wanted("kill") && scale.kills > 0 {
        loss::measure(&scale, common.seed, &mut report, &mut progress)?;
    }
    if args.mount {
        if wanted("sqlite") {
            sqlite::measure(scale.rounds, &mut report, &mut progress)?;
        }
        programs::measure(&scale, common.seed, &wanted, &mut report, &mut progress)?;
    }
    page::close(&mut report);
    Ok(report)
}

/// All workloads in both modes, in alternating rounds.
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
    let arms: Vec<(&Work, Mode)> = works.iter().flat_map(|w| Mode::BOTH.map(|m| (w, m))).collect();
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
    // Both modes of a workload are adjacent.
    let order: Vec<String> = rows.iter().map(|r| r.workload.clone()).collect();
    let at = |r: &JournalRow| order.iter().position(|w| *w == r.workload);
    rows.sort_by_key(|r| (at(r), r.mode != Mode::Checkpoint));
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
            commit_ms: 10,
            apply_every: 3,
            names_each: 30,
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
            kills: 2,
            kill_pause_ms: 200,
        }
    }

    fn find<'a>(rows: &'a [JournalRow], workload: &str, mode: Mode) -> &'a JournalRow {
        rows.iter().find(|r| r.workload == workload && r.mode == mode).unwrap()
    }

    #[test]
    fn both_modes_do_all_workloads_and_rows_keep_their_contract() {
        let (scale, place) = (scale(), Place::memory(512 * MIB));
        let machine = Machine::here(Some(place.storage(None).unwrap()));
        let mut report = Report::new("journal", 1, &scale, machine).unwrap();
        let (mut progress, budget) = (Progress::new(0), Budget::unlimited());
        let works = work::all(&scale).unwrap();
        let mut rows = compare(&works, &place, &scale, &budget, 1, &mut report, &mut progress).unwrap();
        assert_eq!(rows.len(), 2 * (7 + 4 + 3 + 1));
        rows.extend(concurrent_writes::measure(&place, &scale, &mut progress).unwrap());
        assert!(concurrent_writes::note_floor(&place, &scale, &rows).unwrap().is_some());
        for r in &rows {
            assert!(r.ops > 0.0 && r.latency_us.max > 0.0, "{r:?}");
            assert_eq!(r.log_bytes_per_op.is_some(), r.mode == Mode::Journal, "{r:?}");
            report.push(r).unwrap();
        }
        // The same operations, durable at the end, which takes a checkpoint without a journal.
        let (cp, journal) =
            (find(&rows, "create empty", Mode::Checkpoint), find(&rows, "create empty", Mode::Journal));
        assert!(cp.checkpoints >= 1.0 && cp.blocked_us.count >= 1 && cp.commits == 0.0, "{cp:?}");
        assert!(journal.commits >= 1.0 && journal.log_bytes_per_op > Some(0.0), "{journal:?}");
        assert!(journal.phases_ms.as_ref().unwrap()["commit"] > 0.0, "{journal:?}");
        page::fill(&mut report, &rows);
        recovery::measure(&scale, &mut report, &mut progress).unwrap();
        loss::measure(&scale, 1, &mut report, &mut progress).unwrap();
        page::close(&mut report);
        report.to_json(ROWS).unwrap();
        let page = crate::page::html(&report);
        for part in ["create empty", "47.6", "Recovery", "killed"] {
            assert!(page.contains(part), "{part}");
        }
    }
}
