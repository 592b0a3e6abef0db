//! Space accounting on N random geometries: `cargo run --release -p segno-gcmodel --example geometries -- N SEED`. A case that
//! fails is printed with its seed, and repeated with N = 1 and that seed.
use segno_gcmodel::geometries::Case;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let (Some(Ok(n)), Some(Ok(first))) = (args.next(), args.next()) else {
        eprintln!("geometries N SEED");
        return ExitCode::from(2);
    };
    let (mut run, mut cleaned, mut writes, mut failed) = (0u64, 0, 0, 0u64);
    for seed in first..first.saturating_add(n) {
        if let Some(case) = Case::draw(seed) {
            run += 1;
            match case.run() {
                Ok(totals) => {
                    cleaned += totals.cleaned;
                    writes += totals.writes;
                }
                Err(e) => {
                    failed += 1;
                    println!("{case:?}\n  {e}\n  again: -- 1 {seed}");
                }
            }
        }
        if (seed - first + 1).is_multiple_of(1000) {
            eprintln!("{} of {n}: {run} guarded, {failed} failed", seed - first + 1);
        }
    }
    println!("{n} seeds: {run} guarded volumes, {writes} blocks, {cleaned} sections, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
