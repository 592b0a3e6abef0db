//! Examples in help texts, and the programs of section 8.
use super::facts::{EXAMPLES, SYSTEM_EXAMPLES};
use crate::command_line::VERSION;
use crate::commands::mount::helper;
use crate::commands::{check, mkfs};
use clap::{Args, Command};

/// Adds the examples to the help texts.
pub fn with_examples(mut cli: Command) -> Command {
    for (name, example) in EXAMPLES {
        cli = cli.mut_subcommand(name, |c| with_example(c, example));
    }
    cli
}

fn with_example(command: Command, example: &str) -> Command {
    let before = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    command.after_help(format!("{before}Example:\n  {example}"))
}

/// The programs of section 8, which mount(8), fsck(8) and mkfs(8) call.
#[must_use]
pub fn system_programs() -> Vec<Command> {
    let named = |name: &'static str, from: fn(Command) -> Command| from(Command::new(name).version(VERSION));
    let programs = [
        helper::command(),
        named("fsck.segno", check::Args::augment_args),
        named("mkfs.segno", mkfs::Args::augment_args),
    ];
    let example = |c: &Command| SYSTEM_EXAMPLES.iter().find(|(name, _)| *name == c.get_name());
    programs
        .into_iter()
        .map(|c| match example(&c) {
            Some((_, example)) => with_example(c, example),
            None => c,
        })
        .collect()
}
