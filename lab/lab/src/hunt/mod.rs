//! `segno-lab hunt`: builds the engine with known bugs and checks that the crash tests find each of them.
mod patch;
mod runner;
mod source;

use crate::exit;
use anyhow::{Context, Result, bail};
use runner::{Built, Limits, Outcome};
use segno_bench::progress::Progress;
use segno_cli::Schema;
use serde_json::{Value, json};
use source::{Mutant, Source};
use std::collections::BTreeMap;
use std::env;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_A_DAY: u64 = 86_400;

/// Build the engine with known bugs and check that the crash tests find each of them
///
/// A mutant is a patch of lab/mutants. All of them are applied to one copy of the sources, in target/mutants,
/// and one is chosen when the copy runs. Takes the sources and cargo. Exit code 1 if a mutant was not found.
#[derive(clap::Args)]
pub struct Args {
    /// Only this mutant, such as chain-hole
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only N mutants, others each day
    #[arg(long, value_name = "N", conflicts_with = "only")]
    rotate: Option<usize>,
    /// Print the mutants and their descriptions
    #[arg(long)]
    list: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Seed of the drawn cases
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of states within which a mutant is to be found
    #[arg(long, value_name = "N", default_value_t = 5000)]
    states: u64,
    /// Time limit for each mutant
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    limit: u64,
    /// A directory of the sources; by default the current one
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
}

pub fn run(args: &Args) -> exit::Outcome {
    let from = args.source.clone().map_or_else(env::current_dir, Ok)?;
    let source = Source::find(&from.canonicalize().with_context(|| from.display().to_string())?)?;
    let mutants = select(args, &source.mutants)?;
    let mut out = stdout().lock();
    if args.list {
        for mutant in mutants {
            writeln!(out, "{:20} {}", mutant.name, mutant.about)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.rotate.is_some() {
        let names: Vec<&str> = mutants.iter().map(|m| m.name.as_str()).collect();
        eprintln!("mutants of today: {}", names.join(", "));
    }
    let built = Built::new(&source)?;
    let limits = Limits { seed: args.seed, states: args.states, seconds: args.limit };
    let outcomes = hunt_all(&built, &mutants, limits);
    let rows: Vec<Value> = outcomes.iter().map(row).collect();
    if args.json {
        let report = json!({ "seed": args.seed, "build_seconds": built.seconds, "mutants": rows });
        Schema("segno.hunt", 1).print(&mut out, &report)?;
    } else {
        rows.iter().try_for_each(|row| print(&mut out, row))?;
    }
    let found = rows.iter().filter(|row| row["found"] == true).count();
    eprintln!("{found} of {} mutants found; built in {:.0} s", rows.len(), built.seconds);
    Ok(if found == rows.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The mutants that are asked for.
fn select<'a>(args: &Args, all: &'a [Mutant]) -> Result<Vec<&'a Mutant>> {
    if let Some(unknown) = args.only.iter().find(|name| !all.iter().any(|m| m.name == **name)) {
        let known: Vec<&str> = all.iter().map(|m| m.name.as_str()).collect();
        bail!("unknown mutant {unknown}: there are {}", known.join(", "));
    }
    if let Some(count) = args.rotate {
        let days = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / SECONDS_A_DAY;
        return Ok(of_day(all, days as usize, count));
    }
    Ok(all.iter().filter(|m| args.only.is_empty() || args.only.contains(&m.name)).collect())
}

/// A few, so that each has its turn as days pass.
fn of_day<T>(all: &[T], day: usize, count: usize) -> Vec<&T> {
    let first = day.wrapping_mul(count).checked_rem(all.len()).unwrap_or(0);
    all.iter().cycle().skip(first).take(count.min(all.len())).collect()
}

/// Hunts mutants, one on each processor.
fn hunt_all(built: &Built, mutants: &[&Mutant], limits: Limits) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((BTreeMap::new(), Progress::new(mutants.len())));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutant) = mutants.get(index) else { return };
            if let Ok(mut done) = done.lock() {
                done.1.step(&mutant.name);
            }
            let outcome = built.hunt(mutant, limits);
            let Ok(mut done) = done.lock() else { return };
            done.0.insert(index, outcome);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads.min(mutants.len())).for_each(|_| drop(scope.spawn(work))));
    let outcomes = done.into_inner().map(|(outcomes, _)| outcomes).unwrap_or_default();
    outcomes.into_values().collect()
}

/// A hunt without a report found nothing.
fn row(outcome: &Outcome) -> Value {
    match &outcome.report {
        Ok(report) => report.clone(),
        Err(e) => json!({ "mutant": outcome.name, "found": false, "states": 0, "what": format!("{e:#}") }),
    }
}

fn print(out: &mut impl Write, row: &Value) -> Result<()> {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let (name, states) = (text("mutant"), &row["states"]);
    if row["found"] == true {
        let seconds = row["seconds"].as_f64().unwrap_or_default();
        writeln!(
            out,
            "{name:20} found by {} after {states} states, {seconds:.1} s: {}",
            text("by"),
            text("what")
        )?;
    } else {
        writeln!(out, "{name:20} NOT found in {states} states {}", text("what"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turn() {
        let all: Vec<usize> = (0..29).collect();
        let mut seen: Vec<usize> = (0..10).flat_map(|day| of_day(&all, day, 3)).copied().collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, all);
        assert!(of_day(&all, usize::MAX, 50).len() == 29 && of_day::<u8>(&[], 1, 3).is_empty());
    }
}
