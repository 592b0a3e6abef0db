//! One boot of a guest: its script, its output, and how it ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{qemu, user_mode};
use crate::paths::target_dir;

/// Status of a guest that ended without running the script to its end.
pub const STATUS_DIED: u8 = 125;

/// The machine that runs the guest.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Machine {
    /// QEMU: Debian's kernel, any number of disks; slow without KVM
    Qemu,
    /// User-mode Linux, built once: F2FS at nearly native speed, one processor, zoned null_blk
    UserMode,
}

impl Machine {
    /// Disks of one guest.
    pub fn disks_max(self) -> usize {
        match self {
            Self::Qemu => qemu::DISKS_MAX,
            Self::UserMode => user_mode::DISKS_MAX,
        }
    }

    /// Name of a disk in the guest.
    pub fn disk_name(self, index: usize) -> String {
        match self {
            Self::Qemu => format!("/dev/vd{}", letters(index)),
            Self::UserMode => format!("/dev/ubd{}", letters(index)),
        }
    }
}

/// When to cut the power: some time after the guest printed a line, or after its first line of output.
#[derive(Clone, Debug)]
pub struct Kill {
    pub on_line: Option<String>,
    pub after: Duration,
}

/// One boot of the kernel twin.
#[derive(Debug)]
pub struct Boot {
    pub machine: Machine,
    /// Without one, the first disk is the root of a guest in user mode, and its init runs.
    pub script: Option<String>,
    /// Raw images; [`Machine::disk_name`] has their names in the guest.
    pub disks: Vec<PathBuf>,
    /// Socket of a vhost-user server whose file system a guest of QEMU mounts as "segno".
    pub virtiofs: Option<PathBuf>,
    /// A guest that resets itself boots again, with the same script.
    pub reboots: bool,
    pub timeout: Duration,
    /// Folder that is the root of the guest.
    pub share: PathBuf,
    pub kill: Option<Kill>,
    /// Pass the script's output on while it runs.
    pub echo: bool,
}

/// How a guest ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The script ran to its end and gave this status; 0 if the guest's own init turned it off.
    Exited(u8),
    /// Cut off, as asked for.
    Killed,
    TimedOut,
    /// The guest ended, the script did not: a panic, or a boot that failed.
    Died,
}

/// The result of a guest.
#[derive(Debug)]
pub struct Run {
    pub outcome: Outcome,
    /// Lines the script printed.
    pub output: Vec<String>,
    /// The kernel's console.
    pub console: String,
    pub elapsed: Duration,
    pub machine: &'static str,
}

impl Boot {
    /// In QEMU, once, on the host's root, without a power cut.
    pub fn new(script: impl Into<Option<String>>, disks: Vec<PathBuf>, timeout: Duration) -> Self {
        Self {
            machine: Machine::Qemu,
            script: script.into(),
            disks,
            virtiofs: None,
            reboots: false,
            timeout,
            share: "/".into(),
            kill: None,
            echo: false,
        }
    }

    /// Boots and waits for the end, which is the script's without an error, or the power cut that was asked for.
    pub fn run_to_end(&self) -> Result<Run> {
        let run = self.run()?;
        let wanted = if self.kill.is_some() { Outcome::Killed } else { Outcome::Exited(0) };
        if run.outcome != wanted {
            let said = run.output.join("\n");
            bail!("the guest ended with {:?}; it said:\n{said}\n{}", run.outcome, run.console);
        }
        Ok(run)
    }

    /// Boots, runs the script, waits for the end.
    pub fn run(&self) -> Result<Run> {
        if self.disks.len() > self.machine.disks_max() {
            bail!("{} disks given, and one guest takes {}", self.disks.len(), self.machine.disks_max());
        }
        let room = Room::new()?;
        if let Some(script) = &self.script {
            fs::write(room.file("script"), script)?;
        }
        fs::write(room.file("status"), STATUS_DIED.to_string())?;
        let (mut command, machine) = match self.machine {
            Machine::Qemu => qemu::command(self, &room)?,
            Machine::UserMode => user_mode::command(self, &room)?,
        };
        let started = Instant::now();
        // A pipe that stays open: at the end of stdin qemu would unplug the port, and the guest's output with
        // it. A process group, because a guest in user mode has a host process for each of its processes.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let mut guest = Guest { child };
        let (output, end) = self.watch(&mut guest)?;
        let outcome = match end {
            End::Killed => Outcome::Killed,
            End::TimedOut => Outcome::TimedOut,
            End::Closed(machine) if self.script.is_none() && machine.success() => Outcome::Exited(0),
            End::Closed(_) => room.status(),
        };
        let console = fs::read(room.file("console")).unwrap_or_default();
        Ok(Run {
            outcome,
            output,
            console: String::from_utf8_lossy(&console).into_owned(),
            elapsed: started.elapsed(),
            machine,
        })
    }

    /// Collects output until the guest is gone or it is time to end it.
    fn watch(&self, guest: &mut Guest) -> Result<(Vec<String>, End)> {
        let stdout = guest.child.stdout.take().context("qemu has no output pipe")?;
        let lines = read_lines(stdout);
        let give_up = Instant::now() + self.timeout;
        let mut kill_at = None;
        let mut output = Vec::new();
        loop {
            let until = kill_at.map_or(give_up, |at: Instant| at.min(give_up));
            match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if self.echo {
                        writeln!(std::io::stdout(), "{line}")?;
                    }
                    if kill_at.is_none() {
                        kill_at = self
                            .kill
                            .as_ref()
                            .filter(|kill| kill.starts_at(&line))
                            .map(|kill| Instant::now() + kill.after);
                    }
                    output.push(line);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = guest.child.wait().context("waiting for the guest")?;
                    return Ok((output, End::Closed(status)));
                }
                Err(RecvTimeoutError::Timeout) => {
                    guest.end()?;
                    let end =
                        if kill_at.is_some_and(|at| at <= give_up) { End::Killed } else { End::TimedOut };
                    output.extend(lines.iter());
                    return Ok((output, end));
                }
            }
        }
    }
}

impl Kill {
    fn starts_at(&self, line: &str) -> bool {
        self.on_line.as_ref().is_none_or(|wanted| line.trim_end() == wanted)
    }
}

enum End {
    Closed(ExitStatus),
    Killed,
    TimedOut,
}

/// A guest, ended with this program.
struct Guest {
    child: Child,
}

impl Guest {
    /// SIGKILL: the data that the guest had written is in the image, the rest is lost, as in a power cut.
    fn end(&mut self) -> Result<()> {
        if self.child.try_wait().context("waiting for the guest")?.is_none() {
            kill_process_group(Pid::from_child(&self.child), Signal::KILL).context("killing the guest")?;
            self.child.wait().context("waiting for the guest")?;
        }
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // There is nothing to report: either the guest has ended, or an error is being returned already.
        let _ = self.end();
    }
}

/// Folder of one run, shared with the guest: script and status, initrd, console.
pub(super) struct Room {
    pub(super) dir: PathBuf,
}

impl Room {
    fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = target_dir().join("kernel-twin").join(format!("run-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        Ok(Self { dir })
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn status(&self) -> Outcome {
        let text = fs::read_to_string(self.file("status")).unwrap_or_default();
        match text.trim().parse() {
            Ok(STATUS_DIED) | Err(_) => Outcome::Died,
            Ok(status) => Outcome::Exited(status),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("kernel-twin: {} is left behind: {error}", self.dir.display());
        }
    }
}

/// How the kernel counts disks: a to z, then aa.
fn letters(index: usize) -> String {
    let mut letters = Vec::new();
    let mut rest = index + 1;
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(b'a' + (rest % 26) as u8));
        rest /= 26;
    }
    letters.iter().rev().collect()
}

/// Both machines split their arguments at commas.
pub(super) fn comma_free(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    if text.contains(',') {
        bail!("a path without a comma is needed: {text}");
    }
    Ok(text.to_owned())
}

fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            line.clear();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_named_as_the_kernel_names_them() {
        let names = [0, 25, 26, 51, 52, 191].map(|index| Machine::Qemu.disk_name(index));
        assert_eq!(names, ["/dev/vda", "/dev/vdz", "/dev/vdaa", "/dev/vdaz", "/dev/vdba", "/dev/vdgj"]);
        assert_eq!(Machine::UserMode.disk_name(15), "/dev/ubdp");
    }

    #[test]
    fn a_kill_waits_for_its_line() {
        let kill = Kill { on_line: Some("CUT".into()), after: Duration::ZERO };
        assert!(kill.starts_at("CUT"));
        assert!(!kill.starts_at("CUT it"));
        assert!(Kill { on_line: None, after: Duration::ZERO }.starts_at("anything"));
    }
}
