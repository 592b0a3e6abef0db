//! Overwrites of full guarded volumes by all threads of a mount: `guarded [RUNS [SEED]]` runs each volume of
//! 512 MiB RUNS times, and prints the measurements. The seed of a run is in its line.
use segno_sim::guarded::busy::{Busy, Layout, Measured, run};
use std::process::ExitCode;

const DISTRIBUTIONS: [Option<f64>; 2] = [None, Some(0.7)];
const LAYOUTS: [Layout; 3] = [Layout::Zones(10.0), Layout::Zones(15.0), Layout::Lfs];

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let (Ok(runs), Ok(first)) = (numbers.next().unwrap_or(Ok(10)), numbers.next().unwrap_or(Ok(1))) else {
        eprintln!("usage: guarded [RUNS [SEED]]");
        return ExitCode::FAILURE;
    };
    let (mut failed, mut most) = (0, Measured { least_floor: i64::MAX, ..Measured::default() });
    for seed in first..first + runs {
        for (layout, zipf) in LAYOUTS.iter().flat_map(|&layout| DISTRIBUTIONS.map(|zipf| (layout, zipf))) {
            let case = Busy::measured(seed, layout, zipf);
            print!(
                "{layout:?} {zipf:?} seed {seed}, {} files, {} writers, {} contexts, pauses up to {} us: ",
                case.files, case.writers, case.contexts, case.pause
            );
            match run(&case) {
                Ok(m) => {
                    println!("{m}");
                    most.threads = most.threads.max(m.threads);
                    most.pages = most.pages.max(m.pages);
                    most.least_floor = most.least_floor.min(m.least_floor);
                }
                Err(e) => {
                    failed += 1;
                    println!("FAILED: {e}");
                }
            }
        }
    }
    let Measured { pages, threads, least_floor, .. } = most;
    println!(
        "{failed} failed; most pages {pages}, most writeback threads {threads}, least floor {least_floor}"
    );
    ExitCode::from(u8::from(failed > 0))
}
