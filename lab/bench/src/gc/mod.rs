//! `segno bench gc`: write amplification of cleaning, by policy and order of a round, in blocks.
//!
//! The figures come from the block-count model (`segno-gcmodel`), which uses the engine's policies and index.
mod engine;
mod overrides;
mod page;
mod placement;
#[cfg(test)]
mod planted;
mod rig;
mod row;
mod tables;
mod tag;
mod verify;
mod verifying_device;

use crate::budget::Budget;
use crate::machine::Machine;
use crate::options::Common;
use crate::progress::Progress;
use crate::report::Report;
use anyhow::{Context, Result, anyhow};
use overrides::Overrides;
use row::Row;
use segno_clean::policy::{self, POLICIES};
use segno_gcmodel::rounds::Loop;
use segno_gcmodel::{Experiment, Setting, oracle, run as run_model};
use serde_json::json;
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
    /// Whether dirty pages count when room is reckoned [default: true for --loop current]
    #[arg(long, value_name = "BOOL")]
    count_dirty_data: Option<bool>,
    /// Whether user blocks are separated by lifetime; never in the rounds of the kernels
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    lifetime: bool,
    /// Beside the model, run it with blocks grouped by when they will be overwritten: the least over numbers of groups and policies
    #[arg(long)]
    oracle: bool,
    /// Beside the model, run the engine on an emulated zoned device [default experiments: E1, E2 and E4]
    #[arg(long)]
    engine: bool,
    /// Stop after so many application writes
    #[arg(long, value_name = "N")]
    writes: Option<u64>,
    #[command(flatten)]
    overrides: Overrides,
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
                report.leave_out(format!("{e} {p}"), Budget::OVER);
                continue;
            }
            let e = changed(args, e)?;
            let mut runs = vec![of_model(args, &e, p, &mut progress)];
            if args.engine {
                runs.push(of_engine(args, &e, p, &mut progress));
            }
            for run in runs {
                match run {
                    Ok(row) => rows.push(row),
                    Err(why) if policies.len() > 1 => {
                        report.leave_out(format!("{} {p}", e.name), format!("it failed: {why:#}"))
                    }
                    Err(why) => return Err(why),
                }
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
            "Rows of loop engine: the engine itself on an emulated zoned device, which judges every block written and \
             read; checked and read back at the end."
                .into(),
        );
    }
    report.figures = page::figures(&rows);
    Ok(report)
}

/// The named experiment with the options that replace its fields.
fn changed(args: &Args, experiment: &str) -> Result<Experiment> {
    let named =
        Experiment::named(experiment).ok_or_else(|| anyhow!("there is no experiment {experiment}"))?;
    args.overrides.applied_to(named)
}

fn of_model(args: &Args, e: &Experiment, policy: &str, progress: &mut Progress) -> Result<Row> {
    let setting = Setting {
        experiment: *e,
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
            let waf = c.total() as f64 / c.app_writes as f64;
            format!("{} {policy}: {percent} %, amplification {waf:.2}", e.name)
        });
    })
    .map_err(|why| anyhow!("{} {policy}: {why}", e.name))?;
    let mut row = Row::of_model(&setting, &outcome, begun.elapsed().as_secs_f64())?;
    if args.oracle {
        let best = oracle::best(&setting).map_err(|why| anyhow!("{}, oracle: {why}", e.name))?;
        row.oracle = Some(json!({ "waf": best.outcome.waf(), "groups": best.groups, "policy": best.policy }));
    }
    Ok(row)
}

fn of_engine(args: &Args, e: &Experiment, policy: &str, progress: &mut Progress) -> Result<Row> {
    let wanted = e.wanted_writes();
    let writes = args.writes.map_or(wanted, |n| n.min(wanted));
    engine::run(e, policy, args.lifetime, args.common.seed, writes, progress)
        .with_context(|| format!("{} {policy}: in the engine", e.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

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
        Row::of_model(&setting, &run_model(&setting, |_, _| {}).unwrap(), 0.0).unwrap()
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
