//! Runs the simulations and prints what was tried; exits with 1 if anything was wrong.
use clap::Parser;
use segno_sim::suite::{Case, Finding, Plan, Totals};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Args {
    /// A few minutes' worth.
    #[arg(long)]
    quick: bool,
    /// Decides everything that is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Run just this case, thoroughly: KIND:NUMBER.
    #[arg(long)]
    case: Vec<Case>,
    /// Only cases of this kind.
    #[arg(long)]
    only: Option<String>,
    /// Stop at the first case that fails.
    #[arg(long)]
    until_first: bool,
    /// Go on with other seeds for so many seconds.
    #[arg(long)]
    seconds: Option<u64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let plan = |seed| if args.quick { Plan::quick(seed) } else { Plan::full(seed) };
    let until = args.seconds.map(|s| Instant::now() + Duration::from_secs(s));
    let (mut totals, mut findings) = (Totals::default(), Vec::new());
    let mut seed = args.seed;
    loop {
        let plan = plan(seed);
        let cases: Vec<Case> = if args.case.is_empty() { plan.cases().collect() } else { args.case.clone() };
        let wanted = |c: &&Case| args.only.as_ref().is_none_or(|o| c.to_string().starts_with(o.as_str()));
        for &case in cases.iter().filter(wanted) {
            let enough = args.until_first && !findings.is_empty();
            if enough || until.is_some_and(|u| Instant::now() > u) {
                break;
            }
            if let Err(finding) = plan.run(case, &mut totals) {
                tell(&finding, args.quick, args.json);
                findings.push(*finding);
            }
        }
        if until.is_none_or(|u| Instant::now() > u) || args.until_first && !findings.is_empty() {
            break;
        }
        seed += 1;
    }
    summary(&totals, &findings, args.json);
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(finding: &Finding, quick: bool, json: bool) {
    if json {
        return;
    }
    let quick = if quick { "--quick " } else { "" };
    println!(
        "{finding}  again: cargo run --release -p segno-sim --example crashtest -- {quick}--case {}\n",
        finding.case
    );
}

fn summary(totals: &Totals, findings: &[Finding], json: bool) {
    if json {
        println!("{}", serde_json::json!({ "totals": totals, "findings": findings }));
        return;
    }
    println!("model_sequences {}", totals.model_sequences);
    println!("model_ops       {}", totals.model_ops);
    println!("crash_workloads {}", totals.crash_workloads);
    println!("crash_states    {}", totals.crash_states);
    println!("recovery_states {}", totals.recovery_states);
    println!("worked_on       {}", totals.worked_on);
    println!("fault_points    {}", totals.fault_points);
    println!("violations      {}", totals.violations);
}
