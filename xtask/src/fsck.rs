//! fsck.f2fs as a reference checker: a dry run that has to find nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use segno_testkit::f2fs_tools;

/// Check an image with fsck.f2fs, changing nothing
#[derive(Args)]
pub struct Fsck {
    image: PathBuf,
    /// Show all that fsck.f2fs said, not only what it found
    #[arg(long)]
    verbose: bool,
}

impl Fsck {
    /// Exit status 4 (errors left uncorrected) when anything was found, as fsck(8).
    pub fn run(self) -> Result<ExitCode> {
        let report = check(&self.image)?;
        if self.verbose {
            print!("{}", report.output);
        }
        for finding in &report.findings {
            println!("{}: {finding}", self.image.display());
        }
        if report.findings.is_empty() {
            println!("{}: clean", self.image.display());
            return Ok(ExitCode::SUCCESS);
        }
        Ok(ExitCode::from(4))
    }
}

/// Runs `fsck.f2fs --dry-run`; other devices of the volume are found by the superblock.
pub fn check(image: &Path) -> Result<f2fs_tools::Fsck> {
    f2fs_tools::fsck(image).map_err(anyhow::Error::msg)
}

/// Fails with the first finding.
pub fn require_clean(image: &Path) -> Result<()> {
    check(image)?.verdict().map_err(|e| anyhow!("{}: {e}", image.display()))
}
