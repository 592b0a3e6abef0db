//! One run of a command in a separate process, with peak memory and time from getrusage(2).
//!
//! The peak of a process begins with that of the process that starts it. So the one that starts it is this program anew, which
//! is small, and whose only child the command is.
use crate::cases::MEMBER;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A run that takes longer is ended.
const PATIENCE: Duration = Duration::from_secs(30);

/// Folder of a worker. Scripts have `$I`, the input; `$D`, an option that names its further device; `$C` and `$N`, paths that do not exist; `$F`, a file of the host; `$M`, a directory to
/// mount on; `$W`, the folder; `$S`, the program.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    pub segno: &'a Path,
    pub work: &'a Path,
    pub input: &'a str,
}

/// Cost and result of a run.
#[derive(Debug, Default)]
pub struct Usage {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub peak_kib: u64,
    /// Of the processor.
    pub cpu_ms: u64,
    pub wall_ms: u64,
    /// Standard error.
    pub said: String,
}

/// Runs a script by way of [`main`].
pub fn run(job: Job, script: &str) -> Result<Usage, String> {
    let text = |e: std::io::Error| format!("measuring: {e}");
    let errors = job.work.join("stderr");
    let at = |name: &str| job.work.join(name);
    let member = at(MEMBER);
    let device = if member.exists() { format!("--device={}", member.display()) } else { String::new() };
    let mut command = Command::new(std::env::current_exe().map_err(text)?);
    command
        .args(["measure", script])
        .envs([
            ("S", job.segno.to_owned()),
            ("W", job.work.to_owned()),
            ("C", at("out/copy")),
            ("N", at("out/new")),
        ])
        .env("D", device)
        .envs([("I", job.input.into()), ("F", at("file")), ("M", at("mnt")), ("HOME", at("home"))])
        .stdin(Stdio::null())
        .stderr(File::create(&errors).map_err(text)?);
    let out = command.output().map_err(text)?;
    let line = String::from_utf8_lossy(&out.stdout);
    let numbers: Vec<i64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let &[code, peak, cpu, wall] = numbers.as_slice() else {
        return Err(format!("no measurement of {script:?}: {line}"));
    };
    let said = std::fs::read(&errors).map_err(text)?;
    Ok(Usage {
        code: i32::try_from(code).ok().filter(|&code| code >= 0),
        peak_kib: peak.unsigned_abs(),
        cpu_ms: cpu.unsigned_abs(),
        wall_ms: wall.unsigned_abs(),
        said: String::from_utf8_lossy(&said).into_owned(),
    })
}

/// The process between: runs the script and prints exit code (-1 for a signal), KiB, and milliseconds of processor and clock.
pub fn main(script: &str) -> Result<(), String> {
    let started = Instant::now();
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::null()).process_group(0);
    let mut child = command.spawn().map_err(|e| format!("sh: {e}"))?;
    let ended = wait(&mut child).map_err(|e| format!("waiting: {e}"))?;
    let wall = started.elapsed().as_millis();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|e| format!("getrusage: {e}"))?;
    let cpu = usage.user_time().num_milliseconds() + usage.system_time().num_milliseconds();
    // A shell reports a signal of its command as 128 and its number; 141 is that of a pipe.
    let code = ended.code().filter(|&code| code <= 128 || code == 141);
    let code = if ended.signal().is_some() { None } else { code };
    println!("{} {} {cpu} {wall}", code.unwrap_or(-1), usage.max_rss());
    Ok(())
}

fn wait(child: &mut Child) -> std::io::Result<ExitStatus> {
    let (started, mut pause) = (Instant::now(), Duration::from_millis(1));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() > PATIENCE {
            // Of the group that this process made.
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-KILL", "--", &group]).status()?;
            return child.wait();
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
