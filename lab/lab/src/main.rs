//! The `segno-lab` command: experiments and crash tests, kept out of the product. `segno bench` and `segno crashtest`
//! execute it.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod crashtest;
mod exit;
mod hunt;
mod hunt_one;
mod mount_ceiling;
mod mount_zoned;

use clap::{Parser, Subcommand};
use exit::Outcome;
use segno_cli::Schema;
use serde_json::Value;
use std::io::stdout;
use std::path::Path;
use std::process::ExitCode;

/// Experiments and crash tests of Segno.
///
/// Every command that reports takes --json. Progress goes to standard error.
/// Exit code: 0 done, 1 failed, 2 wrong usage.
#[derive(Parser)]
#[command(name = "segno-lab", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an experiment and report its figures
    #[command(after_help = "Example:\n  segno bench run --quick --rounds 1 -o result fsync32")]
    Bench(segno_bench::Args),
    #[command(after_help = "Example:\n  segno crashtest --case scene:0@default")]
    Crashtest(crashtest::Args),
    Hunt(hunt::Args),
    #[command(after_help = "Example:\n  segno-lab mount-ceiling -o transport=classic image /mnt/ceiling")]
    MountCeiling(mount_ceiling::Args),
    #[command(after_help = "Example:\n  segno-lab mount-zoned -o cache=143M /mnt/zoned")]
    MountZoned(mount_zoned::Args),
    #[command(hide = true)]
    HuntOne(hunt_one::Args),
}

impl Command {
    fn run(&self) -> Outcome {
        match self {
            Self::Bench(args) => {
                let print = |report: &Value| Schema("segno.bench", 1).print(stdout(), report);
                segno_bench::run(args, segno_cli::COMMIT, print).map(|()| ExitCode::SUCCESS)
            }
            Self::Crashtest(args) => crashtest::run(args),
            Self::Hunt(args) => hunt::run(args),
            Self::MountCeiling(args) => mount_ceiling::run(args),
            Self::MountZoned(args) => mount_zoned::run(args),
            Self::HuntOne(args) => hunt_one::run(args),
        }
    }
}

/// A link with the name of the product's program is that program, for tests of experiments that execute both.
fn is_called_segno() -> bool {
    std::env::args_os().next().is_some_and(|name| Path::new(&name).file_name() == Some("segno".as_ref()))
}

fn main() -> ExitCode {
    segno_cli::run_broker_if_called();
    if is_called_segno() {
        return segno_cli::main();
    }
    match Cli::try_parse() {
        Ok(cli) => exit::report(cli.command.run()),
        Err(e) => exit::usage(&e),
    }
}
