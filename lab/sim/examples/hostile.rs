//! Runs damaged volumes and prints what was tried: `hostile [SEED [FROM [TO]]]`. Exits with 1 if a rule was broken. A
//! single image is printed first.
use segno_sim::hostile::{HostileCounts, image, run};
use std::process::ExitCode;
use std::time::Instant;

/// Images between two reports of findings.
const STEP: u64 = 100;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse().unwrap_or(0));
    let (seed, from, to) =
        (numbers.next().unwrap_or(1), numbers.next().unwrap_or(0), numbers.next().unwrap_or(10_000));
    if to == from + 1 {
        image(seed, from).map_or_else(|e| eprintln!("{e}"), |image| print!("{image}"));
    }
    let started = Instant::now();
    let mut total = HostileCounts::default();
    for first in (from..to).step_by(STEP as usize) {
        match run(seed, first..to.min(first + STEP)) {
            Ok((counts, findings)) => {
                total.add(&counts);
                for f in &findings {
                    println!("number {}: {}\n{}", f.number, f.what, f.image);
                }
            }
            Err(e) => {
                eprintln!("{e}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{total:?}, {:.0} images/s", total.images as f64 / started.elapsed().as_secs_f64());
    if total.violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
