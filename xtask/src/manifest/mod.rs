//! Manifests: a tree written down, one line a file, and the difference of two of them.

mod content;
mod diff;
mod escape;
mod walk;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

pub use diff::{Comparison, compare};
pub use escape::escape;
pub use walk::{Detail, line_of};

/// Print one line for each file of a tree, sorted by name
#[derive(Args)]
pub struct Manifest {
    dir: PathBuf,
    #[command(flatten)]
    detail: Detail,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Manifest {
    /// Fails if a file could not be read; its line then has the error.
    pub fn run(self) -> Result<ExitCode> {
        let out: Box<dyn Write> = match &self.out {
            Some(file) => {
                Box::new(fs::File::create(file).with_context(|| format!("creating {}", file.display()))?)
            }
            None => Box::new(io::stdout().lock()),
        };
        let mut out = BufWriter::new(out);
        let unreadable = walk::tree(&self.dir, self.detail, &mut out)?;
        out.flush().context("writing the manifest")?;
        if unreadable > 0 {
            eprintln!("manifest: {unreadable} files of {} have what cannot be read", self.dir.display());
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Compare two manifests
#[derive(Args)]
pub struct ManifestDiff {
    expected: PathBuf,
    actual: PathBuf,
    #[command(flatten)]
    comparison: Comparison,
}

impl ManifestDiff {
    /// Exit status 1 when they differ, as diff(1).
    pub fn run(self) -> Result<ExitCode> {
        let read =
            |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
        let differences = compare(&read(&self.expected)?, &read(&self.actual)?, &self.comparison)?;
        let mut out = io::stdout().lock();
        for difference in &differences {
            writeln!(out, "{difference}").context("writing the differences")?;
        }
        Ok(ExitCode::from(u8::from(!differences.is_empty())))
    }
}
