//! Our side, through the `segno` program and nothing else.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::job::Job;
use super::side::{Promises, Side, Turn};
use crate::paths::{run, tool};

const POLL: Duration = Duration::from_millis(20);
/// A mount that does not answer by then never will.
const MOUNT_LIMIT: Duration = Duration::from_secs(60);

pub struct Segno {
    pub program: PathBuf,
    /// Mount options, in addition to those that a volume requires.
    pub options: Option<String>,
    /// Limit of one turn.
    pub timeout: Duration,
}

impl Side for Segno {
    fn name(&self) -> &'static str {
        "segno"
    }

    fn format(&self, job: &Job) -> Result<()> {
        run(Command::new(&self.program).args(["mkfs", "-q", "-f"]).args(job.mkfs_arguments())).map(drop)
    }

    fn visit(&self, turns: &[Turn<'_>]) -> Vec<Result<()>> {
        turns.iter().map(|turn| self.visit_one(turn)).collect()
    }

    fn cut(&self, turns: &[Turn<'_>], promises: &Promises) -> Vec<Result<()>> {
        turns.iter().map(|turn| self.cut_one(turn, promises)).collect()
    }
}

impl Segno {
    /// Our own checker, as a second opinion on every volume.
    pub fn check(&self, job: &Job) -> Result<()> {
        run(Command::new(&self.program).arg("check").args(&job.devices)).map(drop)
    }

    fn mount_options(&self, job: &Job) -> impl Iterator<Item = &str> {
        self.options.as_deref().into_iter().chain(job.case.options).flat_map(|o| ["-o", o])
    }

    /// Mounts read-only if Segno requires that.
    fn mount(&self, job: &Job) -> Result<Access> {
        let command = || {
            let mut command = Command::new(&self.program);
            command.arg("mount").args(self.mount_options(job)).args(further(job));
            command.arg(job.image()).arg(job.mount_point());
            command
        };
        match run(&mut command()) {
            Err(error) if format!("{error:#}").contains("mount it read-only") => {
                run(command().args(["-o", "ro"])).map(|_| Access::ReadOnly)
            }
            result => result.map(|_| Access::ReadWrite),
        }
    }

    fn visit_one(&self, turn: &Turn<'_>) -> Result<()> {
        let dir = turn.job.mount_point();
        let access = self.mount(turn.job)?;
        let script = Task(shell(turn, access)?).wait(self.timeout);
        let unmounted = run(Command::new(&self.program).arg("umount").arg(&dir)).map(drop);
        if unmounted.is_err() {
            detach(&dir);
        }
        script.with_context(|| log_tail(turn))?;
        unmounted
    }

    /// SIGKILL of the server: the data that it had written is in the image, the rest is lost.
    fn cut_one(&self, turn: &Turn<'_>, promises: &Promises) -> Result<()> {
        let dir = turn.job.mount_point();
        let mut mount = Command::new(&self.program);
        mount
            // Linux replays only F2FS's roll-forward chain.
            .args(["mount", "--foreground", "-o", "journal=off"])
            .args(self.mount_options(turn.job))
            .args(further(turn.job))
            .arg(turn.job.image())
            .arg(&dir);
        let mut server =
            Task(mount.stdin(Stdio::null()).spawn().with_context(|| format!("starting {mount:?}"))?);
        let result = wait_mounted(&mut server, &dir).and_then(|()| {
            let mut script = Task(shell(turn, Access::ReadWrite)?);
            let log = turn.job.file(promises.log);
            let kept = wait_lines(&log, promises.lines, &mut script, self.timeout);
            sleep(promises.delay);
            server.end()?;
            // Its files are gone from under it: it ends, and not well.
            let _ = script.wait(MOUNT_LIMIT);
            kept
        });
        server.end()?;
        detach(&dir);
        result.with_context(|| log_tail(turn))
    }
}

/// Names the devices after the first: they are image files.
fn further(job: &Job) -> impl Iterator<Item = &OsStr> {
    job.devices.iter().skip(1).flat_map(|path| [OsStr::new("--device"), path.as_os_str()])
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Access {
    ReadWrite,
    ReadOnly,
}

/// A process that does not outlive us.
struct Task(Child);

impl Task {
    fn wait(mut self, limit: Duration) -> Result<()> {
        let give_up = Instant::now() + limit;
        loop {
            match self.0.try_wait().context("waiting for the script")? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the script ended with {status}"),
                None if Instant::now() > give_up => {
                    bail!("the script still runs after {} s", limit.as_secs())
                }
                None => sleep(POLL),
            }
        }
    }

    fn end(&mut self) -> Result<()> {
        self.0.kill().context("killing a process")?;
        self.0.wait().context("waiting for a killed process")?;
        Ok(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // It has ended already, or an error is on its way up.
        let _ = self.end();
    }
}

fn shell(turn: &Turn<'_>, access: Access) -> Result<Child> {
    let log = turn.job.file(&format!("{}.log", turn.label));
    let log = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
    Command::new(tool("sh", "dash")?)
        .arg("-c")
        .arg(&turn.script)
        .env("DIR", turn.job.mount_point())
        .env("OUT", &turn.job.dir)
        .env("READ_ONLY", if access == Access::ReadOnly { "1" } else { "" })
        .env("XTASK", turn.job.program())
        .stdin(Stdio::null())
        .stderr(log.try_clone()?)
        .stdout(log)
        .spawn()
        .context("starting a shell")
}

fn log_tail(turn: &Turn<'_>) -> String {
    turn.job.read(&format!("{}.log", turn.label)).unwrap_or_default().trim_end().to_owned()
}

fn wait_mounted(server: &mut Task, dir: &Path) -> Result<()> {
    let give_up = Instant::now() + MOUNT_LIMIT;
    while !is_mounted(dir)? {
        if let Some(status) = server.0.try_wait()? {
            bail!("segno mount ended with {status}");
        }
        if Instant::now() > give_up {
            bail!("nothing is mounted at {} after {} s", dir.display(), MOUNT_LIMIT.as_secs());
        }
        sleep(POLL);
    }
    Ok(())
}

fn is_mounted(dir: &Path) -> Result<bool> {
    let table = fs::read_to_string("/proc/self/mounts").context("reading /proc/self/mounts")?;
    let wanted = dir.to_string_lossy();
    Ok(table.lines().any(|line| line.split(' ').nth(1) == Some(&*wanted)))
}

fn wait_lines(log: &Path, lines: usize, script: &mut Task, limit: Duration) -> Result<()> {
    let give_up = Instant::now() + limit;
    loop {
        let count = fs::read_to_string(log).map_or(0, |text| text.lines().count());
        if count >= lines {
            return Ok(());
        }
        if let Some(status) = script.0.try_wait()? {
            bail!("the script ended with {status} after {count} promises");
        }
        if Instant::now() > give_up {
            bail!("only {count} promises after {} s", limit.as_secs());
        }
        sleep(POLL);
    }
}

/// Detaches a dead mount; it is no error if there is none.
fn detach(dir: &Path) {
    for (program, option) in [("umount", "-l"), ("fusermount3", "-uz")] {
        if is_mounted(dir).unwrap_or(false) {
            let _ = Command::new(program).arg(option).arg(dir).output();
        }
    }
}
