//! Checks damaged volumes, searches them for files, live and deleted, and shows their structures: `salvage [SEED [FROM [TO]]]`.
//! Exits with 1 if a rule was broken: a panic, a write, an endless loop, more than ten seconds, 512 MiB. A single image is
//! printed first.
use segno_sim::hostile::{Salvaged, image, peak_kib, salvage_image};
use std::process::ExitCode;
use std::time::Instant;

/// Seconds that an image may take.
const LONGEST: f64 = 10.0;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse().unwrap_or(0));
    let (seed, from, to) =
        (numbers.next().unwrap_or(1), numbers.next().unwrap_or(0), numbers.next().unwrap_or(2_000));
    let (started, mut violations, mut slowest) = (Instant::now(), 0, 0.0f64);
    let (mut damaged, mut all) = (0u64, Salvaged::default());
    for number in from..to {
        let begun = Instant::now();
        let tried = image(seed, number).and_then(|image| {
            if to == from + 1 {
                print!("{image}");
            }
            salvage_image(&image).map_err(|e| format!("{e}\n{image}"))
        });
        let seconds = begun.elapsed().as_secs_f64();
        slowest = slowest.max(seconds);
        let tried =
            tried.and_then(|done| if seconds > LONGEST { Err(format!("{seconds:.1} s")) } else { Ok(done) });
        match tried {
            Ok(done) => {
                damaged += u64::from(done.problems > 0);
                all.names += done.names;
                all.deleted += done.deleted;
                all.shown += done.shown;
            }
            Err(e) => {
                violations += 1;
                println!("number {number}: {e}");
            }
        }
    }
    println!(
        "seed {seed}: {} images, {damaged} with errors, {} names, {} deleted files, {} structures; {violations} violations; \
         the slowest took {slowest:.2} s; {:.0} images/s; peak memory {} MiB",
        to - from,
        all.names,
        all.deleted,
        all.shown,
        (to - from) as f64 / started.elapsed().as_secs_f64(),
        peak_kib() >> 10
    );
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
