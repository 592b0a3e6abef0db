//! The `segno` command: formats, mounts, checks and looks into F2FS volumes.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod commands;
mod exit;
mod image;
mod inspect;
mod mount;
mod path;
mod progress;
mod show;
mod size;
mod tally;

use clap::Parser;
use commands::Command;
use std::ffi::OsString;
use std::process::ExitCode;

/// A log-structured file system in user space that keeps its data in the F2FS format.
///
/// Every command that reports takes --json. Progress goes to standard error.
/// Exit code: 0 done, 1 failed; `check` uses the codes of fsck(8).
#[derive(Parser)]
#[command(name = "segno", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if mount::helper::is_meant(&args) {
        return exit::report(mount::helper::run(&args));
    }
    match Cli::try_parse_from(args) {
        Ok(cli) => exit::report(cli.command.run()),
        Err(e) => exit::usage(&e),
    }
}
