//! Runs schedules of several threads and prints what was tried: `schedules [FROM [TO]]`. Exits with 1 if a rule was
//! broken. `cargo run -p segno-sim --features shuttle --example schedules -- 0 10000`
use segno_sim::schedule::run;
use std::process::ExitCode;
use std::time::Instant;

const STEP: u64 = 100;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse().unwrap_or(0));
    let (from, to) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(10_000));
    let begun = Instant::now();
    let (mut schedules, mut operations, mut violations) = (0, 0, 0);
    for first in (from..to).step_by(STEP as usize) {
        let (counts, findings) = run(first..to.min(first + STEP));
        for f in &findings {
            println!("schedule {} ({}): {}", f.number, f.shape, f.what);
        }
        schedules += counts.schedules;
        operations += counts.operations;
        violations += counts.violations;
    }
    let rate = schedules as f64 / begun.elapsed().as_secs_f64();
    println!(
        "schedules {schedules}, operations {operations}, violations {violations}, {rate:.0} schedules/s"
    );
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
