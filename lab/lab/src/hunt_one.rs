//! `segno-lab hunt-one`: looks for a bug in the engine that this program was built with.
use crate::exit::Outcome;
use segno_sim::suite::{self, Case, HuntPlan};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// Run cases until one of them fails, and print as JSON which one and after how many states
#[derive(clap::Args)]
pub struct Args {
    /// Name of the bug, for the report
    name: String,
    /// The case to begin with
    #[arg(long, value_name = "CASE")]
    start: Option<Case>,
    /// Seed of the drawn cases
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of states after which no case begins
    #[arg(long, value_name = "N", default_value_t = 5000)]
    states: u64,
    /// Time limit
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    limit: u64,
}

pub fn run(args: &Args) -> Outcome {
    let &Args { start, seed, states, limit, .. } = args;
    let plan = HuntPlan { start, seed, states, patience: Duration::from_secs(limit) };
    println!("{}", json!(suite::hunt(&args.name, &plan)));
    Ok(ExitCode::SUCCESS)
}
