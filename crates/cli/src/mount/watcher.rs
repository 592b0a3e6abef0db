//! The process of `-o auto_unmount`: this program, called by its server under another name.
use crate::exit::Outcome;
use anyhow::Context;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// As ps(1) shows it.
const NAME: &str = "segno-auto-unmount";

/// Calls this program as the process that unmounts; its server adds the directory.
pub fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NAME);
    command
}

/// The directory, if the server of a mount makes this call.
pub fn called_for(args: &[OsString]) -> Option<&Path> {
    match args {
        [name, dir] if name == NAME => Some(Path::new(dir)),
        _ => None,
    }
}

/// Unmounts the directory when the server was killed.
pub fn run(dir: &Path) -> Outcome {
    segno_fuse::unmount_orphan(dir).with_context(|| format!("cannot unmount {}", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}
