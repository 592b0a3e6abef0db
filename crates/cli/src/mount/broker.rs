//! The broker of a mount: this program, called by its server under another name.
use crate::exit::{Outcome, Style};
use anyhow::Context;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// As ps(1) shows it.
const NAME: &str = "segno-broker";

/// Calls this program as the broker; its server adds the description of the mount.
pub fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NAME);
    command
}

/// Runs the broker if the server of a mount makes this call. Each program that mounts begins with it.
#[must_use]
pub fn run_if_called() -> Option<ExitCode> {
    let args: Vec<OsString> = std::env::args_os().collect();
    let (name, spec) = args.split_first()?;
    (name == NAME).then(|| Style::Text.report(run(spec)))
}

fn run(spec: &[OsString]) -> Outcome {
    segno_fuse::run_broker(spec).context("the broker of a mount")?;
    Ok(ExitCode::SUCCESS)
}
