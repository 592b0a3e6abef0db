//! Pages and completions, as text; the tests judge them too.
use clap::{Args, Command};
use clap_complete::{Shell, generate};
use segno_cli::manual::{self, Page};
use std::io;

/// The command line, with the experiments of segno-lab.
fn command_line() -> Command {
    let bench = |stub: Command| {
        let about = stub.get_about().cloned().unwrap_or_default();
        segno_bench::Args::augment_args(Command::new("bench").about(about).subcommand_required(true))
    };
    segno_cli::command_line().mut_subcommand("bench", bench)
}

/// All manual pages, with the date of this second.
pub fn pages(secs: u64) -> Vec<Page> {
    manual::pages(command_line(), &manual::date(secs))
}

/// Files of completions.
pub fn completions() -> io::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut text = Vec::new();
        generate(shell, &mut command_line(), "segno", &mut text);
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        files.push((clap_complete::Generator::file_name(&shell, "segno"), text));
    }
    Ok(files)
}
