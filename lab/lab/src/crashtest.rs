//! `segno crashtest`: power cuts and device faults in memory, checked against the durability guarantees of the engine.
use crate::exit::Outcome;
use anyhow::Result;
use segno_bench::progress::Progress;
use segno_cli::Schema;
use segno_sim::suite::{self, Case, Kind, Plan, Report};
use std::io::{Write, stdout};
use std::process::ExitCode;

/// Try the engine in memory: against a model, through power cuts, with a failing device
///
/// Nothing but memory is used. Without --quick it takes a quarter of an hour or so and uses all processors.
/// Exit code 1 if anything was wrong; each finding has the command that repeats it.
#[derive(clap::Args)]
pub struct Args {
    /// A sample that has ended after a minute
    #[arg(long)]
    quick: bool,
    /// Decides everything that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Only one row of the table
    #[arg(long, value_name = "KIND")]
    only: Option<Kind>,
    /// All on one of the setups, such as journal
    #[arg(long, value_name = "NAME")]
    setup: Option<String>,
    /// Only this case, in all its states; as findings name it, such as single:17
    #[arg(long, value_name = "CASE", conflicts_with_all = ["quick", "only", "setup"])]
    case: Vec<Case>,
}

pub fn run(args: &Args) -> Outcome {
    let plan = if args.quick { Plan::quick(args.seed) } else { Plan::full(args.seed) };
    let plan = args.only.map_or(plan.clone(), |kind| plan.only(kind));
    let plan = match &args.setup {
        Some(name) => plan.on(name).map_err(anyhow::Error::msg)?,
        None => plan,
    };
    let report = if args.case.is_empty() { try_all(&plan) } else { suite::run_cases(&plan, &args.case) };
    let mut out = stdout().lock();
    if args.json {
        Schema("segno.crashtest", 1).print(&mut out, &report)?;
    } else {
        print(&mut out, &report)?;
    }
    Ok(if report.totals.violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn try_all(plan: &Plan) -> Report {
    let mut progress = Progress::new(0);
    suite::run(plan, &mut |p| {
        progress.detail(|| {
            format!(
                "{:4} s  {} {} of {}; {} states, {} violations",
                p.elapsed.as_secs(),
                p.row,
                p.cases,
                p.planned,
                p.totals.crash_states + p.totals.recovery_states,
                p.totals.violations
            )
        });
    })
}

fn print(out: &mut impl Write, report: &Report) -> Result<()> {
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    for row in &report.rows {
        let t = &row.totals;
        writeln!(out, "{}, seed {}, {:.0} s", row.title, row.seed, row.seconds)?;
        let counts = [
            ("cases", row.cases),
            ("operations", t.model_ops),
            ("crash states", t.crash_states),
            ("inside recovery", t.recovery_states),
            ("worked on", t.worked_on),
            ("faults", t.fault_points),
            ("images", t.damaged_images),
        ];
        let shown: Vec<String> =
            counts.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{n} {name}")).collect();
        let cut_short = if row.cases < row.planned { format!(" of {}", row.planned) } else { String::new() };
        writeln!(out, "    {}{cut_short}, {} violations    {}", shown.join(", "), t.violations, row.again)?;
        if t.reach.cuts > 0 {
            writeln!(out, "    {}", t.reach)?;
        }
    }
    summary(out, report)
}

fn summary(out: &mut impl Write, report: &Report) -> Result<()> {
    let t = &report.totals;
    let all = [
        ("model_sequences", t.model_sequences),
        ("crash_states", t.crash_states),
        ("recovery_states", t.recovery_states),
        ("fault_points", t.fault_points),
        ("damaged_images", t.damaged_images),
        ("violations", t.violations),
        ("states_per_second", report.states_per_second as u64),
        ("seconds", report.seconds as u64),
    ];
    for (name, n) in all {
        writeln!(out, "{name:18} {n:>10}")?;
    }
    Ok(())
}
