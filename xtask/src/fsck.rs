//! fsck.f2fs as a witness: a dry run that has to find nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::paths::tool;

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

/// What fsck.f2fs said of an image, and what of it counts against the image.
pub struct Report {
    pub findings: Vec<String>,
    pub output: String,
}

/// Runs `fsck.f2fs --dry-run`; other devices of the volume are found by the superblock.
pub fn check(image: &Path) -> Result<Report> {
    let run = Command::new(tool("fsck.f2fs", "f2fs-tools")?)
        .arg("--dry-run")
        .arg(image)
        .output()
        .with_context(|| format!("starting fsck.f2fs on {}", image.display()))?;
    let mut output = String::from_utf8_lossy(&run.stdout).into_owned();
    output.push_str(&String::from_utf8_lossy(&run.stderr));
    let mut findings = findings(&output);
    if !run.status.success() {
        findings.push(format!("fsck.f2fs ended with {}", run.status));
    }
    Ok(Report { findings, output })
}

/// Lines that tell of damage, or that the check was not made at all.
fn findings(output: &str) -> Vec<String> {
    const BAD: [&str; 4] = ["[ASSERT]", "[FIX]", "[Fail]", "\tError"];
    let mut findings: Vec<String> = output
        .lines()
        .map(str::trim_end)
        .filter(|line| BAD.iter().any(|word| line.contains(word)) || line.starts_with("Error"))
        .map(str::to_owned)
        .collect();
    let last_step = output.lines().any(|line| line.starts_with("[FSCK] other corrupted bugs"));
    if !last_step {
        let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        findings.push(format!("the check was not made to its end; it last said: {last}"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::findings;

    const CLEAN: &str = "[FSCK] Unreachable nat entries                        [Ok..] [0x0]\n\
        [FSCK] other corrupted bugs                           [Ok..]\n\nDone: 0.000000 secs\n";

    #[test]
    fn a_clean_run_has_no_findings() {
        assert!(findings(CLEAN).is_empty());
    }

    #[test]
    fn damage_is_found() {
        let damaged = format!("[ASSERT] (sanity_check_nid: 471)  --> nid[0x5] ino is 0\n{CLEAN}");
        assert_eq!(findings(&damaged).len(), 1);
        assert_eq!(findings(&CLEAN.replace("[Ok..]", "[Fail]")).len(), 2);
    }

    #[test]
    fn a_check_that_stopped_early_is_no_pass() {
        assert_eq!(findings("Info: Dry run\n\tCan't find a valid F2FS superblock at 0x0\n").len(), 1);
    }
}
