//! The `segno` command: formats, mounts, checks and inspects F2FS volumes.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod commands;
mod exit;
mod image;
mod inspect;
mod mount;
mod path;
mod progress;
mod salvage;
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
    if mount::helper::is_mount_helper(&args) {
        return exit::report(mount::helper::run(&args));
    }
    let check = commands::check::of_check(&args);
    let usage_code = if check.is_some() { exit::fsck::USAGE } else { exit::FAILED };
    match Cli::try_parse_from(check.unwrap_or(args)) {
        Ok(cli) => exit::report(cli.command.run()),
        Err(e) => exit::usage(&e, usage_code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_subcommand_is_described() {
        let mut cli = Cli::command();
        // Finds conflicts of names that a user would meet as a panic of debug builds.
        cli.build();
        cli.clone().debug_assert();
        let silent = cli.get_subcommands().find(|c| c.get_about().is_none());
        assert_eq!(silent.map(|c| c.get_name()), None);
    }
}
