//! Cuts repairs of damaged volumes at every write: `repair_cuts [SEED [FROM [TO]]]`. Exits with 1 if a state has neither the
//! old findings nor none.
use segno_sim::hostile::{cuts, image};
use segno_testkit::caught;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse().unwrap_or(0));
    let (seed, from, to) =
        (numbers.next().unwrap_or(1), numbers.next().unwrap_or(0), numbers.next().unwrap_or(300));
    let (mut repairs, mut writes, mut old, mut repaired, mut violations) = (0, 0, 0, 0, 0);
    for number in from..to {
        match image(seed, number).and_then(|image| caught(|| cuts::run(&image))) {
            Ok(None) => {}
            Ok(Some(cuts)) => {
                repairs += 1;
                writes += cuts.writes;
                old += cuts.old;
                repaired += cuts.repaired;
            }
            Err(e) => {
                violations += 1;
                println!("number {number}: {e}");
            }
        }
    }
    println!(
        "{repairs} repairs with {writes} writes, {old} states as before, {repaired} repaired, {violations} violations"
    );
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
