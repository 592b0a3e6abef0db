//! `segno bench object`: a volume on an object store in memory with latency, errors and stalls, and the store itself.
mod arm;
mod raw;
mod simulated_store;

use crate::machine::Machine;
use crate::options::Common;
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::{Sample, alternate, ratio};
use anyhow::Result;
use arm::{Found, Sizes, Work};
use segno_store::{Cause, Count};
use serde::Serialize;
use serde_json::json;
use simulated_store::Conditions;
use std::collections::BTreeMap;
use std::time::Duration;

/// Schema of a row.
pub const ROWS: &str = include_str!("../../schema/object.json");

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    /// Time that a request takes, in milliseconds
    #[arg(long, value_delimiter = ',', default_value = "5,20,100")]
    latency: Vec<u64>,
    /// Of a hundred requests to the volume's store, how many fail as with 503
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=90))]
    errors: u64,
    /// Of a hundred requests to the volume's store, how many take ten times as long
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=100))]
    stalls: u64,
}

/// Medians of the rounds. `raw` is the store alone, and `ratio` ours to that, within each round.
#[derive(Serialize)]
struct Row {
    workload: String,
    latency_ms: u64,
    unit: &'static str,
    value: f64,
    spread_percent: f64,
    raw: f64,
    ratio: f64,
    user_bytes: u64,
    engine_bytes: u64,
    puts: u64,
    gets: u64,
    put_bytes: u64,
    got_bytes: u64,
    retries: u64,
    /// Of the last round.
    requests_by_cause: BTreeMap<&'static str, u64>,
    put_bytes_per_user_byte: BTreeMap<&'static str, f64>,
    rounds: usize,
}

pub fn run(args: &Args) -> Result<Report> {
    let common = &args.common;
    let sizes = if common.quick {
        Sizes { fsyncs: 10, bytes: 16 << 20, files: 100 }
    } else {
        Sizes { fsyncs: 100, bytes: 1 << 30, files: 30_000 }
    };
    let arms: Vec<(Work, u64)> =
        args.latency.iter().flat_map(|&ms| Work::ALL.map(|work| (work, ms))).collect();
    let mut progress = Progress::new(arms.len() * common.rounds());
    let found = alternate(&arms, common.rounds(), &common.budget(), |(work, ms), round| {
        progress.step(&format!("{} at {ms} ms", work.name()));
        let latency = Duration::from_millis(ms);
        let conditions = Conditions { latency, errors: args.errors, stalls: args.stalls };
        arm::run(work, conditions, sizes, common.seed + round as u64)
    })?;
    drop(progress);
    let config = json!({
        "latency_ms": args.latency, "errors_percent": args.errors, "stalls_percent": args.stalls,
        "fsyncs_each": sizes.fsyncs, "bytes": sizes.bytes, "files": sizes.files,
    });
    let mut report = Report::new("object", common.seed, &config, Machine::here(None))?;
    report.notes.push(
        "The store is in this process, behind a link of 1 GiB/s each way that all requests share.".into(),
    );
    report
        .notes
        .push("raw: a PUT of 4 KiB, or objects of 8 MiB, 8 in flight, without errors and stalls.".into());
    report.note_rounds("all", found.first().map_or(0, |(_, runs)| runs.len()), common.rounds());
    for ((work, ms), rounds) in &found {
        report.push(&row(*work, *ms, rounds))?;
    }
    Ok(report)
}

fn row(work: Work, latency_ms: u64, rounds: &[Found]) -> Row {
    let all = |of: &dyn Fn(&Found) -> f64| rounds.iter().map(of).collect::<Vec<_>>();
    let median = |of: &dyn Fn(&Found) -> f64| Sample::of(&all(of)).median as u64;
    let sum = |of: fn(&Count) -> u64| median(&|f| f.counts.iter().map(|(_, c)| of(c)).sum::<u64>() as f64);
    let (ours, raw) = (all(&|f| f.value), all(&|f| f.raw));
    let value = Sample::of(&ours);
    let causes =
        || rounds.last().into_iter().flat_map(|f| f.counts.iter().map(move |(cause, c)| (f, *cause, c)));
    let requests = |(_, cause, c): (&Found, Cause, &Count)| (cause.name(), c.puts + c.gets + c.others);
    let bytes = |(f, cause, c): (&Found, Cause, &Count)| {
        (f.user_bytes > 0).then(|| (cause.name(), c.bytes_put as f64 / f.user_bytes as f64))
    };
    Row {
        workload: work.name(),
        latency_ms,
        unit: work.unit(),
        value: value.median,
        spread_percent: value.spread_percent(),
        raw: Sample::of(&raw).median,
        ratio: ratio(&ours, &raw).median,
        user_bytes: median(&|f| f.user_bytes as f64),
        engine_bytes: median(&|f| f.engine_bytes as f64),
        puts: sum(|c| c.puts),
        gets: sum(|c| c.gets),
        put_bytes: sum(|c| c.bytes_put),
        got_bytes: sum(|c| c.bytes_got),
        retries: sum(|c| c.retries),
        requests_by_cause: causes().map(requests).collect(),
        put_bytes_per_user_byte: causes().filter_map(bytes).collect(),
        rounds: rounds.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contract of docs/object-store.md: an fsync is one PUT.
    #[test]
    fn every_workload_gives_a_row_and_an_fsync_is_one_put() {
        let common =
            Common { quick: true, json: false, output: None, image: None, force: false, seed: 1, rounds: 1 };
        let report = run(&Args { common, latency: vec![1], errors: 0, stalls: 0 }).unwrap();
        println!("{:#}", report.to_json(ROWS).unwrap()["results"]);
        assert_eq!(report.results.len(), Work::ALL.len());
        let first = &report.results[0].0;
        assert_eq!(first["requests_by_cause"]["commit"], 11, "10 fsyncs and the checkpoint before them");
        assert_eq!(first["requests_by_cause"]["data"], 0);
    }
}
