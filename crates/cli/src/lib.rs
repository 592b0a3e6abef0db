//! The `segno` command: formats, mounts, checks and inspects F2FS volumes. `segno-lab` mounts test devices with it.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

#[macro_use]
mod out;

mod advice;
#[cfg(all(feature = "jemalloc", target_arch = "x86_64", not(test)))]
mod allocator;
mod command_line;
mod commands;
mod completion;
mod confine;
mod counters;
mod document;
mod exit;
mod external_journal;
mod f2fs_tools;
mod files;
mod image;
mod inherited;
pub mod manual;
mod mode;
mod mount;
mod new_file;
mod path;
mod preserve;
mod process;
mod program;
mod progress;
mod rescue_image;
mod salvage;
mod segments;
mod show;
mod storage;
mod store;
mod tag;
mod tally;
mod time;
mod usage;
mod xattr_value;

pub use command_line::{COMMIT, VERSION};
pub use document::Schema;
pub use exit::describe;
pub use mount::{mount_device, mount_file_system};
pub use program::command_line;
pub use segno_fuse::run_broker_if_called;

use clap::FromArgMatches;
use exit::WithCode;
use program::Cli;
use signal_hook::consts::SIGXFSZ;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs the program with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    run_broker_if_called();
    // A file that would exceed the limit of its size is an error with a message, and does not end the program.
    let _without_message = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let args = called_as_mkfs(std::env::args_os().collect());
    segno_device::close_inherited(&inherited::named(&args));
    if let Some(tool) = f2fs_tools::of(&args) {
        return f2fs_tools::run(tool, &args);
    }
    let style = exit::Style::of(&args);
    if command_line::is_mount_helper(&args) {
        return style.report(commands::mount::helper::run(&args));
    }
    let check = commands::check::of_check(&args);
    let usage_code = if check.is_some() { exit::fsck::USAGE } else { exit::USAGE };
    let args = check.unwrap_or(args);
    let parsed = command_line().try_get_matches_from(&args).and_then(|m| Cli::from_arg_matches(&m));
    match parsed {
        Ok(cli) => style.report(cli.command.run()),
        Err(e) => match advice::on(&e, &args) {
            Some(advice) => style.report(Err(WithCode(usage_code, advice).into())),
            None => style.usage(e, usage_code),
        },
    }
}

/// `mkfs.segno …` is `segno mkfs …`.
fn called_as_mkfs(args: Vec<OsString>) -> Vec<OsString> {
    match args.split_first() {
        Some((program, rest)) if Path::new(program).file_name().is_some_and(|n| n == "mkfs.segno") => {
            ["segno".into(), "mkfs".into()].into_iter().chain(rest.iter().cloned()).collect()
        }
        _ => args,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_is_described() {
        let mut cli = command_line();
        // Finds conflicts of names that a user would meet as a panic of debug builds.
        cli.build();
        cli.clone().debug_assert();
        let silent = cli.get_subcommands().find(|c| c.get_about().is_none());
        assert_eq!(silent.map(|c| c.get_name()), None);
    }

    #[test]
    fn a_link_with_the_name_of_mkfs_formats() {
        let called = |args: &[&str]| called_as_mkfs(args.iter().map(OsString::from).collect());
        assert_eq!(called(&["/sbin/mkfs.segno", "-f", "a"]), ["segno", "mkfs", "-f", "a"]);
        assert_eq!(called(&["segno", "mkfs"]), ["segno", "mkfs"]);
    }
}
