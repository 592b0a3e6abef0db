//! `segno bench gc`: write amplification of cleaning, by policy and order of a round, in blocks.
//!
//! The figures come from the block-count model (`segno-gcmodel`), which uses the engine's policies and index.
mod engine;
mod page;

use crate::machine::Machine;
use crate::options::Common;
use crate::progress::Progress;
use crate::report::Report;
use anyhow::{Context, Result, anyhow};
use segno_clean::policy::{self, POLICIES};
use segno_gcmodel::rounds::Loop;
use segno_gcmodel::{Counters, Experiment, Kind, Outcome, Setting, oracle, run as run_model};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::time::Instant;

/// Schema of a row.
pub const ROWS: &str = include_str!("../../schema/gc.json");

/// The default of `--experiment`: those that take seconds.
const SMALL: [&str; 10] = ["E1", "E2", "E3", "E4", "E5", "E6", "E8", "database", "archive", "refill"];

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    /// E0 to E8, database, archive or refill [default: all but the large ones E0 and E7]
    #[arg(long, value_delimiter = ' ', num_args = 1..)]
    experiment: Vec<String>,
    #[arg(long, num_args = 1.., help = format!("{} [default: all]", policy::names()))]
    policy: Vec<String>,
    /// seed: a checkpoint on every pass, as Linux 6.6; current: as Linux 6.1; batch: sections at once, one checkpoint for several;
    /// paced: ours
    #[arg(long = "loop", value_parser = order, default_value = "paced")]
    order: Loop,
    /// Dirty pages from which they are written back, in percent of the file [default: the experiment's]
    #[arg(long, value_name = "PERCENT")]
    dirty: Option<f64>,
    /// Whether dirty pages count when room is reckoned [default: true for --loop current]
    #[arg(long, value_name = "BOOL")]
    count_dirty_data: Option<bool>,
    /// Whether user blocks are separated by lifetime; never in the rounds of the kernels
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    lifetime: bool,
    /// Beside the model, run it with blocks grouped by when they will be overwritten: the least over numbers of groups and policies
    #[arg(long)]
    oracle: bool,
    /// Beside the model, run the engine on an emulated zoned device: experiments with uniform, sequential or hot overwrites of
    /// one file [default experiments: E1, E2 and E4]
    #[arg(long)]
    engine: bool,
    /// Stop after so many application writes
    #[arg(long, value_name = "N")]
    writes: Option<u64>,
}

fn order(name: &str) -> Result<Loop, String> {
    match name {
        "seed" => Ok(Loop::Seed),
        "current" => Ok(Loop::Current),
        "batch" => Ok(Loop::Batch),
        "paced" => Ok(Loop::Paced),
        _ => Err("choose seed, current, batch or paced".into()),
    }
}

fn order_name(how: Loop) -> &'static str {
    match how {
        Loop::Seed => "seed",
        Loop::Current => "current",
        Loop::Batch => "batch",
        Loop::Paced => "paced",
    }
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub source: &'static str,
    pub experiment: String,
    pub policy: String,
    pub r#loop: &'static str,
    pub dirty_percent: f64,
    pub count_dirty_data: bool,
    pub lifetime: bool,
    /// Of `--oracle`: amplification, groups and policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oracle: Option<Value>,
    pub file_blocks: u64,
    pub node_blocks: u64,
    pub layout_writes: u64,
    #[serde(flatten)]
    pub whole: Part,
    pub zone_violations: u64,
    pub quarters: Vec<Part>,
    pub wall_s: f64,
}

/// Counts since the layout.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    pub app_writes: u64,
    pub waf: f64,
    pub waf_by_class: Map<String, Value>,
    pub absorbed: f64,
    pub dev_writes: Value,
    pub gc_rounds: u64,
    pub gc_moved: Value,
    pub gc_sections: Value,
    pub gc_segments: Value,
    pub checkpoints: u64,
    pub zone_resets: u64,
    pub stall_blocks: Value,
}

impl Part {
    fn of(c: &Counters) -> Self {
        let app = c.app_writes.max(1) as f64;
        let share = |n: u64| n as f64 / app;
        let by_class = Kind::ALL.iter().map(|&k| (k.name().to_owned(), json!(share(c.of(k))))).collect();
        let seq: u64 = Kind::ALL.into_iter().filter(|k| k.is_main()).map(|k| c.of(k)).sum();
        Self {
            app_writes: c.app_writes,
            waf: share(c.total()),
            waf_by_class: by_class,
            absorbed: share(c.coalesced + c.written_by_cleaning),
            dev_writes: json!({ "sequential": seq, "conventional": c.total() - seq }),
            gc_rounds: c.rounds,
            gc_moved: json!({ "data": c.of(Kind::MovedData), "node": c.of(Kind::MovedNodes) }),
            gc_sections: json!({ "data": c.sections[0], "node": c.sections[1] }),
            gc_segments: json!({ "data": c.segments[0], "node": c.segments[1] }),
            checkpoints: c.checkpoints,
            zone_resets: c.zone_resets,
            stall_blocks: json!({ "p50": c.stall_quantile(0.5), "p99": c.stall_quantile(0.99), "max": c.longest_stall }),
        }
    }
}

pub fn run(args: &Args) -> Result<Report> {
    let names = |given: &[String], all: &[&str]| match given {
        [] => all.iter().map(|&s| s.to_owned()).collect(),
        some => some.to_vec(),
    };
    let experiments: Vec<String> =
        names(&args.experiment, if args.engine { &engine::EXPERIMENTS } else { &SMALL });
    let policies: Vec<String> = names(&args.policy, &POLICIES.map(|p| p.example));
    let config = json!({
        "experiments": experiments, "policies": policies, "loop": order_name(args.order), "writes": args.writes,
    });
    let mut report = Report::new("gc", args.common.seed, &config, Machine::here(None))?;
    let budget = args.common.budget();
    let mut progress = Progress::new(experiments.len() * policies.len());
    let mut rows = Vec::new();
    for e in &experiments {
        for p in &policies {
            progress.step(&format!("{e} {p}"));
            if !budget.has_time_for_another(rows.len()) && !rows.is_empty() {
                report.notes.push(format!("{e} {p} was left out: the time was over"));
                continue;
            }
            match one(args, e, p, &mut progress) {
                Ok(mut found) => rows.append(&mut found),
                Err(why) if policies.len() > 1 => report.notes.push(format!("failed: {why}")),
                Err(why) => return Err(why),
            }
        }
    }
    drop(progress);
    rows.iter().try_for_each(|r| report.push(r))?;
    report.notes.push(
        "Blocks counted by the model around the engine's own policies and index; layout not included; every run was verified \
         at its end."
            .into(),
    );
    if args.engine {
        report.notes.push(
            "Rows of loop engine: the engine itself on an emulated zoned device; checked and read back at the end. Its \
             writeback empties the cache at twice the dirty pages that the model keeps."
                .into(),
        );
    }
    report.figures = page::figures(&rows);
    Ok(report)
}

fn one(args: &Args, experiment: &str, policy: &str, progress: &mut Progress) -> Result<Vec<Row>> {
    let mut e =
        Experiment::named(experiment).ok_or_else(|| anyhow!("there is no experiment {experiment}"))?;
    if let Some(percent) = args.dirty {
        e.dirty = percent / 100.0;
    }
    let setting = Setting {
        experiment: e,
        policy: policy.to_owned(),
        how: args.order,
        seed: args.common.seed,
        count_dirty_data: args.count_dirty_data,
        lifetime: args.lifetime,
        limit: args.writes,
    };
    let begun = Instant::now();
    let outcome = run_model(&setting, |percent, c| {
        progress.detail(|| {
            format!(
                "{experiment} {policy}: {percent} %, amplification {:.2}",
                c.total() as f64 / c.app_writes as f64
            )
        });
    })
    .map_err(|why| anyhow!("{experiment} {policy}: {why}"))?;
    let mut rows = vec![row(&setting, &outcome, begun.elapsed().as_secs_f64())?];
    if let (true, Some(row)) = (args.oracle, rows.first_mut()) {
        let best = oracle::best(&setting).map_err(|why| anyhow!("{experiment}, oracle: {why}"))?;
        row.oracle = Some(json!({ "waf": best.outcome.waf(), "groups": best.groups, "policy": best.policy }));
    }
    if args.engine {
        let of_engine = engine::run(args, &e, policy, progress);
        rows.push(of_engine.with_context(|| format!("{experiment} {policy} in the engine"))?);
    }
    Ok(rows)
}

fn row(s: &Setting, o: &Outcome, wall_s: f64) -> Result<Row> {
    let last = o.quarters.last().ok_or_else(|| anyhow!("the run has no end"))?;
    Ok(Row {
        source: "model",
        experiment: s.experiment.name.to_owned(),
        policy: s.policy.clone(),
        r#loop: order_name(s.how),
        dirty_percent: s.experiment.dirty * 100.0,
        count_dirty_data: s.counts_dirty_data(),
        lifetime: s.separates(),
        oracle: None,
        file_blocks: o.file_blocks,
        node_blocks: o.nodes,
        layout_writes: o.layout.total(),
        whole: Part::of(last),
        zone_violations: last.zone_violations,
        quarters: o.quarters.iter().map(Part::of).collect(),
        wall_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_of(experiment: &str, policy: &str, how: Loop, limit: u64) -> Row {
        let experiment = Experiment::named(experiment).unwrap();
        let setting = Setting {
            experiment,
            policy: policy.to_owned(),
            how,
            seed: 1,
            count_dirty_data: None,
            lifetime: true,
            limit: Some(limit),
        };
        row(&setting, &run_model(&setting, |_, _| {}).unwrap(), 0.0).unwrap()
    }

    /// Linux 6.1.192 on a volume of this shape: application writes, amplification, data blocks moved.
    #[test]
    fn greedy_agrees_with_the_kernel() {
        let near = |ours: f64, kernel: f64, what: &str| {
            assert!((ours / kernel - 1.0).abs() < 0.10, "{what}: {ours} where the kernel has {kernel}");
        };
        for (experiment, writes, waf, moved) in [
            ("E1", 90_880, 3.178, 193_647.0),
            ("E1", 363_520, 3.450, 861_337.0),
            ("E2", 88_832, 3.198, 187_632.0),
        ] {
            let r = row_of(experiment, "greedy", Loop::Current, writes);
            assert_eq!(r.zone_violations, 0);
            near(r.whole.waf, waf, "amplification");
            near(r.whole.gc_moved["data"].as_f64().unwrap(), moved, "data moved");
        }
    }

    #[test]
    fn rows_pass_their_schema_and_the_classes_sum_up() {
        for policy in POLICIES.map(|p| p.example) {
            let r = row_of("E4", policy, Loop::Batch, 30_000);
            crate::schema::check(ROWS, &serde_json::to_value(&r).unwrap()).unwrap();
            let sum: f64 = r.whole.waf_by_class.values().filter_map(Value::as_f64).sum();
            assert!((sum - r.whole.waf).abs() < 1e-9);
        }
    }
}
