//! The command line of `segno`.
use crate::commands::{Command, check};
use crate::exit::{self, Outcome};
use crate::manual;
use clap::{CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;

/// A log-structured file system in user space that keeps its data in the F2FS format.
///
/// Every command that reports takes --json; errors are then JSON too. Progress and errors go to standard error.
/// Names are printed with control characters and bytes that are not UTF-8 as \xNN or \uNNNN, and \ as \\. JSON has them unchanged;
/// for one that is not UTF-8, path is escaped so, and path_bytes has all bytes in hexadecimal.
/// Exit code: 0 done, 1 failed, 2 wrong usage; `check` uses the codes of fsck(8).
#[derive(Parser)]
#[command(name = "segno", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// The command line: for manual pages and completions.
#[must_use]
pub fn command_line() -> clap::Command {
    manual::with_examples(Cli::command())
}

/// Runs a command line that this program has made from another one. Errors in it can only be values that the
/// user gave.
pub fn run_words(words: Vec<OsString>) -> Outcome {
    let check = check::of_check(&words);
    let code = if check.is_some() { exit::fsck::USAGE } else { exit::FAILED };
    let parsed =
        command_line().try_get_matches_from(check.unwrap_or(words)).and_then(|m| Cli::from_arg_matches(&m));
    match parsed {
        Ok(cli) => cli.command.run(),
        Err(e) => Ok(exit::Style::Text.usage(e, code)),
    }
}
