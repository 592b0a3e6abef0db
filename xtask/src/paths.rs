//! Where the build keeps its by-products, and where system tools are found.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;
use segno_testkit::f2fs_tools::{self, places};

/// The folder cargo builds into; everything xtask fetches or unpacks goes below it.
pub fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target"),
    }
}

/// Path of a system tool, or an error that names the Debian package to install.
pub fn tool(name: &str, package: &str) -> Result<PathBuf> {
    places(name)
        .find(|file| file.is_file())
        .with_context(|| format!("{name} not found; install it (Debian package: {package})"))
}

/// A call of a program of f2fs-tools.
pub fn f2fs_tool(name: &str) -> Result<Command> {
    f2fs_tools::command(name).map_err(anyhow::Error::msg)
}

/// Print where a program of f2fs-tools is, for scripts: segno may have taken its name
#[derive(Args)]
pub struct F2fsTool {
    /// Name of the program
    name: String,
}

impl F2fsTool {
    pub fn run(self) -> Result<ExitCode> {
        println!("{}", Path::new(f2fs_tool(&self.name)?.get_program()).display());
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs a command to its end. An error contains the command line and its output.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?} ended with {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
