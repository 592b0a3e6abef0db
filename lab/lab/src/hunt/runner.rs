//! Builds the copy of the sources that has all mutants, and hunts one of them in a separate process.
use super::source::{Mutant, Source, Tests};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::env;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How much longer than its limit a hunt may take: a case that runs is not cut short.
const GRACE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// The result of one hunt.
pub struct Outcome {
    pub name: String,
    /// The report of the process, or why there is no report.
    pub report: Result<Value>,
}

/// How far hunts go.
#[derive(Clone, Copy)]
pub struct Limits {
    pub seed: u64,
    pub states: u64,
    pub seconds: u64,
}

/// The program with all mutants, and how long building it took.
pub struct Built {
    copy: PathBuf,
    target: PathBuf,
    program: PathBuf,
    pub seconds: f64,
}

impl Built {
    pub fn new(source: &Source) -> Result<Self> {
        let begun = Instant::now();
        // A separate directory: cargo mistakes the packages of a copy for those of the workspace.
        let (copy, target) = (source.work_dir().join("src"), source.work_dir().join("build"));
        source.copy_to(&copy)?;
        let status = Command::new(cargo())
            .args(["build", "--quiet", "-p", "segno-lab", "--target-dir"])
            .arg(&target)
            .current_dir(&copy)
            .status()
            .context("cargo, which builds the mutants, does not run")?;
        ensure!(status.success(), "the mutants in {} do not build", copy.display());
        let program = target.join("debug").join(format!("segno-lab{}", env::consts::EXE_SUFFIX));
        Ok(Self { copy, target, program, seconds: begun.elapsed().as_secs_f64() })
    }

    /// Runs cases on a mutant until one of them fails.
    pub fn hunt(&self, mutant: &Mutant, limits: Limits) -> Outcome {
        Outcome { name: mutant.name.clone(), report: self.report(mutant, limits) }
    }

    fn report(&self, mutant: &Mutant, limits: Limits) -> Result<Value> {
        if !mutant.tests.is_empty() {
            return self.report_of_tests(mutant, limits);
        }
        let child = Command::new(&self.program)
            .args(["hunt-one", &mutant.name])
            .args(mutant.start.iter().flat_map(|case| ["--start".into(), case.to_string()]))
            .args(["--seed", &limits.seed.to_string()])
            .args(["--states", &limits.states.to_string()])
            .args(["--limit", &limits.seconds.to_string()])
            .env("SEGNO_MUTANT", &mutant.name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Panics that a case caught.
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| self.program.display().to_string())?;
        let report = result(child, Duration::from_secs(limits.seconds) + GRACE)?;
        Ok(serde_json::from_str(&report)?)
    }
}

impl Built {
    /// Runs tests on a mutant: each group has to find it.
    fn report_of_tests(&self, mutant: &Mutant, limits: Limits) -> Result<Value> {
        let begun = Instant::now();
        let mut missed = Vec::new();
        for tests in &mutant.tests {
            if !self.is_found_by(mutant, tests, limits)? {
                missed.push(tests.to_string());
            }
        }
        let all: Vec<String> = mutant.tests.iter().map(Tests::to_string).collect();
        let what =
            if missed.is_empty() { "a test fails".into() } else { format!("by {}", missed.join(", ")) };
        Ok(json!({
            "mutant": mutant.name,
            "found": missed.is_empty(),
            "states": 0,
            "seconds": begun.elapsed().as_secs_f64(),
            "by": all.join(", "),
            "what": what,
        }))
    }

    /// Whether tests of a crate, which pass without the mutant, fail with it.
    fn is_found_by(&self, mutant: &Mutant, tests: &Tests, limits: Limits) -> Result<bool> {
        let cargo = |last: &[&str]| {
            let mut command = Command::new(cargo());
            let package = ["test", "--quiet", "--tests", "-p", &tests.package, "--target-dir"];
            command.args(package).arg(&self.target).args(last).current_dir(&self.copy);
            command.envs(tests.env.iter().map(|(name, value)| (name, value)));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let status = cargo(&["--no-run"]).status().context("cargo does not run")?;
        ensure!(status.success(), "the tests of {} do not build", tests.package);
        let sound = cargo(&["--", &tests.filter]).env_remove("SEGNO_MUTANT").status()?;
        ensure!(sound.success(), "the tests {tests} fail without a mutant");
        let child = cargo(&["--", &tests.filter]).env("SEGNO_MUTANT", &mutant.name).spawn()?;
        Ok(!wait(child, Duration::from_secs(limits.seconds))?.0.success())
    }
}

fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The output of a process, which is less than a pipe holds.
fn result(child: Child, patience: Duration) -> Result<String> {
    let (status, mut child) = wait(child, patience)?;
    ensure!(status.success(), "the process ended with {status}");
    let mut text = String::new();
    child.stdout.take().context("no output")?.read_to_string(&mut text)?;
    Ok(text)
}

fn wait(mut child: Child, patience: Duration) -> Result<(ExitStatus, Child)> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, child));
        }
        if begun.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("a case hangs");
        }
        thread::sleep(POLL);
    }
}
