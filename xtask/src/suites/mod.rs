//! Suites from elsewhere, run on a directory of a mounted volume.

mod fsx;
mod pjdfstest;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

pub use fsx::Fsx;
pub use pjdfstest::Pjdfstest;

use crate::paths::{run, target_dir};

/// A program of crates.io, built once into `target/tools`.
fn installed(name: &str, version: &str) -> Result<PathBuf> {
    let root = target_dir().join("tools").join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if program.is_file() {
        return Ok(program);
    }
    eprintln!("{name}: building version {version} (once)");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["install", "--quiet", "--locked", "--no-track", "--version", version, "--root"])
        .arg(&root)
        .arg(name);
    run(&mut command).with_context(|| format!("installing {name} {version} from crates.io"))?;
    Ok(program)
}

/// A folder in `dir` that is there for the run only.
struct WorkDir(PathBuf);

impl WorkDir {
    fn new(dir: &Path, name: &str) -> Result<Self> {
        if !dir.is_dir() {
            bail!("{} is not a directory", dir.display());
        }
        let path = dir.join(name);
        std::fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} is left behind: {error}", self.0.display());
        }
    }
}
