//! Searches damaged volumes for files and shows their structures: `salvage [SEED [FROM [TO]]]`. Exits with 1 if a rule was
//! broken. A single image is printed first.
use segno_sim::hostile::{image, salvage_image};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse().unwrap_or(0));
    let (seed, from, to) =
        (numbers.next().unwrap_or(1), numbers.next().unwrap_or(0), numbers.next().unwrap_or(2_000));
    let (started, mut violations, mut slowest) = (Instant::now(), 0, 0.0f64);
    for number in from..to {
        let begun = Instant::now();
        let tried = image(seed, number).and_then(|image| {
            if to == from + 1 {
                print!("{image}");
            }
            salvage_image(&image).map_err(|e| format!("{e}\n{image}"))
        });
        slowest = slowest.max(begun.elapsed().as_secs_f64());
        if let Err(e) = tried {
            violations += 1;
            println!("number {number}: {e}");
        }
    }
    let rate = (to - from) as f64 / started.elapsed().as_secs_f64();
    println!(
        "{} images, {violations} violations, {rate:.0} images/s, the slowest took {slowest:.2} s",
        to - from
    );
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
