//! pjdfstest, a suite of POSIX file system semantics.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::geteuid;

use super::{WorkDir, installed};

const VERSION: &str = "0.2.2";
/// Where tests of EXDEV find another file system.
const OTHER_FILE_SYSTEM: &str = "/dev/shm";
/// Users, other than root, that every system has.
const USERS: [&str; 2] = ["nobody", "daemon"];

/// Run pjdfstest on a directory of a mounted volume (needs root)
#[derive(Args)]
pub struct Pjdfstest {
    dir: PathBuf,
    /// Only tests whose name contains this (repeat)
    #[arg(long = "only", value_name = "PATTERN")]
    only: Vec<String>,
    /// Leave out the tests that remount the volume read-only, although DIR is a mount point
    #[arg(long)]
    no_remount: bool,
}

impl Pjdfstest {
    /// Builds the suite, for runs where nothing can be built.
    pub fn install() -> Result<()> {
        installed("pjdfstest", VERSION).map(drop)
    }

    /// Prints what failed, what was skipped and why, and at last the counts.
    pub fn run(self) -> Result<ExitCode> {
        if !geteuid().is_root() {
            bail!("pjdfstest needs root: it changes owners and acts as other users");
        }
        let program = installed("pjdfstest", VERSION)?;
        let dir = self.dir.canonicalize().with_context(|| format!("directory {}", self.dir.display()))?;
        let place = WorkDir::new(&dir, &place_name(&dir))?;
        let remount = !self.no_remount && is_mount_point(&dir)?;

        // In the run of all tests some leave files open, so that no remount succeeds after them: these run apart.
        let mut tally = Tally::default();
        tally.add(&run_suite(&program, &place.0, &self.only, false)?)?;
        if remount && (self.only.is_empty() || self.only.iter().any(|pattern| pattern.contains("erofs"))) {
            tally.erofs_run_apart();
            tally.add(&run_suite(&program, &place.0, &["erofs".to_owned()], true)?)?;
        }
        let mut out = std::io::stdout().lock();
        for line in &tally.failures {
            writeln!(out, "FAILED  {line}")?;
        }
        for line in &tally.skips {
            writeln!(out, "skipped {line}")?;
        }
        writeln!(
            out,
            "pjdfstest {VERSION}: {} passed, {} failed, {} skipped, of {}",
            tally.passed,
            tally.failures.len(),
            tally.skips.len(),
            tally.passed + tally.failures.len() + tally.skips.len()
        )?;
        Ok(ExitCode::from(u8::from(!tally.failures.is_empty())))
    }
}

/// The suite makes paths of exactly PATH_MAX bytes out of components of 127, and panics when nothing is left for the last.
fn place_name(dir: &Path) -> String {
    const TEMPORARY: usize = 2 * "/.tmpXXXXXX".len();
    const COMPONENT: usize = 127;
    let name = "pjdfstest".to_owned();
    let length = dir.as_os_str().len() + 1 + name.len() + TEMPORARY;
    if (4095 - length.min(4095)).is_multiple_of(COMPONENT) { name + "-" } else { name }
}

fn is_mount_point(dir: &Path) -> Result<bool> {
    let Some(parent) = dir.parent() else { return Ok(false) };
    Ok(fs::metadata(dir)?.dev() != fs::metadata(parent)?.dev())
}

fn run_suite(program: &Path, place: &Path, only: &[String], remount: bool) -> Result<String> {
    let config = place.join("pjdfstest.toml");
    fs::write(&config, configuration(remount)?).with_context(|| format!("writing {}", config.display()))?;
    let output = Command::new(program)
        .arg("-c")
        .arg(&config)
        .arg("-p")
        .arg(place)
        .args(["-s", OTHER_FILE_SYSTEM])
        .args(only)
        .env("RUST_BACKTRACE", "0")
        .env("NO_COLOR", "1")
        .output()
        .context("starting pjdfstest")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !text.contains("Summary:") {
        bail!("pjdfstest did not come to its end:\n{text}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

fn configuration(remount: bool) -> Result<String> {
    let users = USERS.map(|user| primary_group(user).map(|group| format!("[\"{user}\", \"{group}\"]")));
    let users = users.into_iter().collect::<Result<Vec<_>>>()?.join(", ");
    Ok(format!(
        "[features]\nposix_fallocate = {{}}\nrename_ctime = {{}}\nstat_st_birthtime = {{}}\n\
         utime_now = {{}}\nutimensat = {{}}\n\n\
         [settings]\nnaptime = 0.01\nallow_remount = {remount}\n\n\
         [dummy_auth]\nentries = [{users}]\n"
    ))
}

fn primary_group(user: &str) -> Result<String> {
    let field = |file: &str, key: usize, wanted: &str, field: usize| {
        let text = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
        let row = text
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|row| row.get(key) == Some(&wanted));
        let value = row.and_then(|row| row.get(field).map(|value| (*value).to_owned()));
        value.with_context(|| format!("{file} has no {wanted}"))
    };
    let gid = field("/etc/passwd", 0, user, 3)?;
    field("/etc/group", 2, &gid, 0)
}

/// Results of one or several runs.
#[derive(Default)]
struct Tally {
    passed: usize,
    /// Name and reason.
    failures: Vec<String>,
    skips: Vec<String>,
}

impl Tally {
    /// Reads the lines `NAME  RESULT`, each followed by indented reasons if it is not "ok".
    fn add(&mut self, output: &str) -> Result<()> {
        let mut lines = output.lines().peekable();
        let before = self.total();
        while let Some(line) = lines.next() {
            let mut words = line.split_whitespace();
            let (Some(name), Some(result), None) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let reason = lines.peek().filter(|next| next.starts_with('\t')).map_or("", |next| next.trim());
            match result {
                "ok" => self.passed += 1,
                "skipped" => self.skips.push(format!("{name}: {reason}")),
                "FAILED" => self.failures.push(format!("{name}: {reason}")),
                _ => {}
            }
        }
        let told = output.lines().find_map(|line| {
            line.strip_prefix("Summary:")?.rsplit(',').next()?.trim().strip_suffix(" total")?.parse().ok()
        });
        if told != Some(self.total() - before) {
            bail!("pjdfstest counted {told:?} tests, its output shows {}", self.total() - before);
        }
        Ok(())
    }

    fn total(&self) -> usize {
        self.passed + self.failures.len() + self.skips.len()
    }

    fn erofs_run_apart(&mut self) {
        self.skips.retain(|skip| !skip.contains("allow_remount"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "unlink::a      ok\nrename::erofs_named     skipped\n\tRemounts (allow_remount) are not allowed\n\
        link::c     FAILED\n\tassertion failed\nBacktrace:\n   0: main\n\n\
        Summary: 1 failed, 1 skipped, 1 passed, 0 expected failures, 3 total\n";

    #[test]
    fn results_are_counted_with_their_reasons() {
        let mut tally = Tally::default();
        tally.add(OUTPUT).unwrap();
        assert_eq!(tally.passed, 1);
        assert_eq!(tally.failures, ["link::c: assertion failed"]);
        assert_eq!(tally.skips.len(), 1);
        tally.erofs_run_apart();
        assert!(tally.skips.is_empty());
    }

    #[test]
    fn a_miscount_is_an_error() {
        assert!(Tally::default().add(&OUTPUT.replace("3 total", "4 total")).is_err());
    }

    #[test]
    fn no_work_folder_makes_the_suite_stumble() {
        for length in 1..400 {
            let dir = PathBuf::from(format!("/{}", "d".repeat(length)));
            let full = dir.as_os_str().len() + 1 + place_name(&dir).len() + 22;
            assert_ne!((4095 - full) % 127, 0, "{length}");
        }
    }
}
