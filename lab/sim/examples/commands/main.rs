//! Runs every command of the program on hostile volumes, archives, sparse images and buckets, each in a separate process:
//! `commands --segno PROGRAM [--cases N] [--seed S]`. Prints runs, exit codes, peak memory and longest time of each command. Exits with 1
//! if one took more than 256 MiB or 10 s of processor time, panicked, was ended by a signal, or had an exit code that is not documented.
#![allow(clippy::indexing_slicing, reason = "a test program")]
mod archives;
mod buckets;
mod cases;
mod images;
mod measure;
mod sparse;
mod table;
mod tally;

use cases::{Kind, Maker, Worker};
use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tally::Tally;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    subprocess: Option<Subprocess>,
    #[command(flatten)]
    run: Run,
}

/// Parts of the program that run as separate processes.
#[derive(Subcommand)]
enum Subprocess {
    #[command(hide = true)]
    Measure { script: String },
    #[command(hide = true)]
    Make { seed: u64, work: PathBuf },
}

#[derive(Args)]
struct Run {
    /// The program
    #[arg(long, env = "SEGNO", default_value = "target/release/segno")]
    segno: PathBuf,
    /// Inputs: a third each are volumes, archives with sparse images, and buckets
    #[arg(long, default_value_t = 10_000)]
    cases: u64,
    /// The first input
    #[arg(long, default_value_t = 0)]
    first: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs at a time
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Only commands whose name contains this, each on every input
    #[arg(long)]
    only: Option<String>,
    /// Assert no times, as where other programs share the machine
    #[arg(long)]
    untimed: bool,
    /// Where inputs and outputs are made; needs 1 GiB, in memory best
    #[arg(long, default_value = "/tmp/segno-commands")]
    work: PathBuf,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.subprocess {
        Some(Subprocess::Measure { script }) => measure::main(script).map(|()| true),
        Some(Subprocess::Make { seed, work }) => cases::make_all(*seed, work).map(|()| true),
        None => cli.run.run(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

impl Run {
    fn run(&self) -> Result<bool, String> {
        let segno = self.segno.canonicalize().map_err(|e| format!("{}: {e}", self.segno.display()))?;
        let (next, tally) = (AtomicU64::new(self.first), Mutex::new(Tally::default()));
        let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
            let each = |job: u64| {
                let (next, tally, segno) = (&next, &tally, &segno);
                scope.spawn(move || self.work(&self.work.join(job.to_string()), segno, next, tally))
            };
            let threads: Vec<_> = (0..self.jobs.max(1)).map(each).collect();
            threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("a thread failed".into()))).collect()
        });
        results.into_iter().collect::<Result<(), _>>()?;
        let _ours = std::fs::remove_dir_all(&self.work);
        let tally = tally.into_inner().map_err(|e| e.to_string())?;
        print!("{tally}");
        println!(
            "{} inputs from {}, seed {}, program {}",
            self.cases,
            self.first,
            self.seed,
            segno.display()
        );
        Ok(tally.findings == 0)
    }

    fn work(&self, dir: &Path, segno: &Path, next: &AtomicU64, tally: &Mutex<Tally>) -> Result<(), String> {
        let worker = Worker::new(dir, segno)?;
        let mut maker = Maker::start(self.seed, dir)?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= self.first + self.cases {
                return Ok(());
            }
            let kind = Kind::of(number);
            if kind == Kind::Bucket && !worker.has_store {
                continue;
            }
            maker.make(number)?;
            for row in kind.rows(number, self.only.as_deref()) {
                let usage = worker.measure(kind, row)?;
                let mut tally = tally.lock().map_err(|e| e.to_string())?;
                for what in tally.add(row, &usage, self.untimed) {
                    println!(
                        "{}: {what}; --seed {} --first {number} --cases 1 --only {:?}",
                        row.name, self.seed, row.name
                    );
                }
            }
        }
    }
}
