//! The results of all volumes, for people and for programs.

use anyhow::Result;
use serde_json::{Value, json};

use super::Relay;
use super::job::Job;

/// One row for each volume, then the counts.
pub fn table(relay: &Relay, seed: u64) {
    println!("{:>3}  {:<5}  {:<30} {:>12}  {:>5}  result", "nr", "kind", "volume", "MiB", "steps");
    for job in &relay.jobs {
        let sizes: Vec<_> = job.case.mib.iter().map(u64::to_string).collect();
        let result = match job.failure() {
            None => match job.read_only {
                Some(side) => format!("ok, read-only for {side}"),
                None => "ok".to_owned(),
            },
            Some(step) => format!("FAILED at {}", step.name),
        };
        println!(
            "{:>3}  {:<5}  {:<30} {:>12}  {:>5}  {result}",
            job.number,
            kind(job),
            job.case.name,
            sizes.join("+"),
            job.steps.len()
        );
    }
    for job in &relay.jobs {
        if let Some(step) = job.failure() {
            let why = step.failure.as_deref().unwrap_or_default();
            println!("\n{}, {}: {}: {why}", job.number, job.case.name, step.name);
        }
    }
    for (side, skips) in &relay.skips {
        for skip in skips {
            println!("not tried on some volumes of {side}: {skip}");
        }
    }
    let (clean, cut) = (counts(relay, false), counts(relay, true));
    println!(
        "handover {} to {}, seed {seed}: {} of {} clean, {} of {} after a cut",
        relay.writer.name(),
        relay.reader.name(),
        clean.0,
        clean.1,
        cut.0,
        cut.1
    );
}

pub fn json(relay: &Relay, seed: u64) -> Result<String> {
    let jobs: Vec<Value> = relay
        .jobs
        .iter()
        .map(|job| {
            json!({
                "nr": job.number,
                "volume": job.case.name,
                "mkfs": job.case.mkfs,
                "mib": job.case.mib,
                "seed": job.seed,
                "kind": kind(job),
                "ok": job.failure().is_none(),
                "read_only": job.read_only,
                "steps": job.steps,
            })
        })
        .collect();
    let (clean, cut) = (counts(relay, false), counts(relay, true));
    Ok(serde_json::to_string_pretty(&json!({
        "writer": relay.writer.name(),
        "reader": relay.reader.name(),
        "seed": seed,
        "clean": { "ok": clean.0, "of": clean.1 },
        "cut": { "ok": cut.0, "of": cut.1 },
        "skipped": relay.skips,
        "volumes": jobs,
    }))?)
}

fn kind(job: &Job) -> &'static str {
    if job.cut { "cut" } else { "clean" }
}

/// How many of that kind are well, and how many there are.
fn counts(relay: &Relay, cut: bool) -> (usize, usize) {
    let of_kind = || relay.jobs.iter().filter(move |job| job.cut == cut);
    (of_kind().filter(|job| job.failure().is_none()).count(), of_kind().count())
}
