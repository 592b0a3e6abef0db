//! `segno bench writeback`: one context against several, shared against exclusive streams.
mod age;
mod case;
mod extents;
mod plan;
mod table;
mod target;
mod work;

use crate::machine::Machine;
use crate::options::Common;
use crate::page::{Figure, Lines, Series};
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::{Sample, alternate, ratio};
use anyhow::Result;
use case::{Case, Outcome};
use serde::Serialize;
use serde_json::json;

/// Schema of a row.
pub const ROWS: &str = include_str!("../../schema/writeback.json");

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    workload: &'static str,
    state: &'static str,
    writers: u64,
    contexts: u32,
    streams: &'static str,
    depth: &'static str,
    device: &'static str,
    mib: f64,
    mib_per_s: f64,
    min: f64,
    max: f64,
    n: usize,
    raw_mib_per_s: f64,
    /// Median of the ratios within each round.
    of_raw: f64,
    extents: u64,
    best_extents: u64,
    mean_extent_mib: f64,
    interleave_per_gib: f64,
    alloc_calls_per_gib: f64,
    waf: f64,
    write_kib: f64,
    cpu_s_per_gib: f64,
    threads: u64,
}

pub fn run(args: &Args) -> Result<Report> {
    let common = &args.common;
    let scale = plan::Scale::of(common.quick);
    let place = common.place(scale.real_volume)?;
    let groups = plan::groups(&scale, &place);
    let budget = common.budget();
    let mut progress = Progress::new(groups.iter().map(|g| g.cases.len() + 1).sum());
    let config = json!({
        "scale": scale,
        "rounds_at_most": common.rounds(),
        "writers": plan::WRITERS,
        "contexts_compared": plan::MANY,
    });
    let storage = place.storage(Some(common.raw_time() / 4))?;
    let mut report = Report::new("writeback", common.seed, &config, Machine::here(Some(storage)))?;
    let mut rows = Vec::new();
    for group in &groups {
        let part = budget.fraction(group.share);
        let arms: Vec<Option<&Case>> = std::iter::once(None).chain(group.cases.iter().map(Some)).collect();
        let found = alternate(&arms, common.rounds(), &part, |case, round| {
            let Some(case) = case else {
                progress.step(&format!("raw writes, {}", group.target.name()));
                return group.raw(scale.raw_volume);
            };
            progress.step(&case.title(&group.target));
            case.run(&group.target, common.seed.wrapping_add(round as u64), &mut report.mkfs)
        })?;
        let done = found.first().map_or(0, |(_, runs)| runs.len());
        report.note_rounds(group.target.name(), done, common.rounds());
        let raw: Vec<f64> =
            found.iter().filter(|f| f.0.is_none()).flat_map(|f| &f.1).map(Outcome::speed).collect();
        let cases = found.iter().filter_map(|(case, outcomes)| Some(((*case)?, outcomes)));
        rows.extend(cases.map(|(case, outcomes)| row(case, group.target.name(), &raw, outcomes)));
    }
    drop(progress);
    rows.iter().try_for_each(|r| report.push(r))?;
    report.notes = notes(&scale);
    report.figures.push(knee(&rows));
    report.figures.push(Figure::Table(table::contexts_and_streams(&rows)));
    Ok(report)
}

fn row(case: &Case, device: &'static str, raw: &[f64], outcomes: &[Outcome]) -> Row {
    let of = |f: fn(&Outcome) -> f64| Sample::of(&outcomes.iter().map(f).collect::<Vec<_>>());
    let speed = of(Outcome::speed);
    let gib = |o: &Outcome| o.mib / 1024.0;
    let first = outcomes.first().copied().unwrap_or_default();
    Row {
        workload: case.work.name(),
        state: case.state.name(),
        writers: case.writers,
        contexts: case.contexts,
        streams: if case.exclusive { "exclusive" } else { "shared" },
        depth: if case.split { "split" } else { "plain" },
        device,
        mib: first.mib,
        mib_per_s: speed.median,
        min: speed.min,
        max: speed.max,
        n: speed.n,
        raw_mib_per_s: Sample::of(raw).median,
        of_raw: ratio(&outcomes.iter().map(Outcome::speed).collect::<Vec<_>>(), raw).median,
        extents: of(|o| o.layout.extents as f64).median as u64,
        best_extents: first.best,
        mean_extent_mib: of(|o| o.layout.bytes as f64 / (1 << 20) as f64 / o.layout.extents.max(1) as f64)
            .median,
        interleave_per_gib: of(|o| {
            o.layout.interleaved as f64 / (o.layout.bytes as f64 / (1u64 << 30) as f64).max(1e-9)
        })
        .median,
        alloc_calls_per_gib: Sample::of(
            &outcomes.iter().map(|o| o.alloc_calls as f64 / gib(o)).collect::<Vec<_>>(),
        )
        .median,
        waf: of(|o| o.written_mib / o.mib).median,
        write_kib: of(|o| o.written_mib * 1024.0 / (o.writes as f64).max(1.0)).median,
        cpu_s_per_gib: Sample::of(&outcomes.iter().map(|o| o.cpu / gib(o)).collect::<Vec<_>>()).median,
        threads: outcomes.iter().map(|o| o.threads).max().unwrap_or(0),
    }
}

fn notes(scale: &plan::Scale) -> Vec<String> {
    vec![
        format!(
            "Scaled to this machine: {} writers of {} MiB each on the real disk, {} MiB in memory, where zeros are not \
             stored and volumes may be larger than the machine.",
            plan::WRITERS, scale.real_mib, scale.large_mib
        ),
        "Raw writes as many bytes as the workload, in a row, with one flush at the end, and takes its turn in each round."
            .into(),
        "Everything runs within one process, without FUSE. The time includes making everything durable.".into(),
        "Figures of `real` are of the disk named below through the page cache of the machine; those of `memory` and of the \
         model say nothing about a disk."
            .into(),
        "`split` cuts each write of one context into pieces of 128 KiB that are written side by side: the queue depth of \
         several contexts without them."
            .into(),
    ]
}

/// Throughput of random writes over the number of contexts, on the model.
fn knee(rows: &[Row]) -> Figure {
    let points = rows
        .iter()
        .filter(|r| r.workload == "random" && r.device.starts_with("model") && r.depth == "plain")
        .map(|r| (f64::from(r.contexts), r.mib_per_s));
    let series = vec![Series { name: String::new(), points: points.collect() }];
    Figure::Lines(Lines {
        title: "Random writes on the model".into(),
        x: "contexts".into(),
        y: "MiB/s".into(),
        log_x: true,
        log_y: false,
        series,
    })
}
