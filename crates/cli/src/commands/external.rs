//! Subcommands of another program, as in git and cargo: `segno bench …` executes `segno-lab bench …`.
use crate::exit::Outcome;
use anyhow::{Context, Result, anyhow};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that has these subcommands.
const PROGRAM: &str = "segno-lab";

/// Accepts everything, so that the other program parses it.
#[derive(clap::Args)]
pub struct Unparsed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// Replaces this process, so that exit code and signals are the other program's.
pub fn run() -> Outcome {
    let here = directory()?;
    let sibling = here.join(PROGRAM);
    let found = if sibling.is_file() { sibling } else { PathBuf::from(PROGRAM) };
    // Unparsed: the option parser would drop a `--`.
    let error = Command::new(&found).args(std::env::args_os().skip(1)).exec();
    Err(match error.kind() {
        io::ErrorKind::NotFound => not_found(&here),
        _ => anyhow!(error).context(format!("cannot execute {}", found.display())),
    })
}

/// The directory of the running executable.
fn directory() -> Result<PathBuf> {
    let exe = std::env::current_exe().context("cannot find this program")?;
    Ok(exe.parent().unwrap_or(Path::new("/")).to_owned())
}

fn not_found(here: &Path) -> anyhow::Error {
    let command = std::env::args().nth(1).unwrap_or_default();
    anyhow!(
        "`segno {command}` needs the program {PROGRAM}, which is neither in {} nor in PATH; \
         build it with `cargo build --release -p segno-lab`, or install it with `cargo install --path lab/lab`",
        here.display()
    )
}
