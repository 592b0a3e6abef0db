//! A server that continues in the background. Instead of forking, the command executes itself again, and the new process
//! reports on its standard output when the mount responds. Until then its errors go to the user's terminal.
use super::table;
use anyhow::{Context, Result};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Written by the server when the mount responds.
const READY: &[u8] = b"ready\n";

/// How a server reports that the mount responds.
#[derive(Debug)]
pub enum Readiness {
    /// No process waits for it.
    Foreground,
    /// The command that started it waits on its standard output.
    Background(Surroundings),
}

/// Replacements of the terminal, opened before the server drops the right to open files.
#[derive(Debug)]
pub struct Surroundings {
    null: File,
    log: OwnedFd,
}

impl Readiness {
    /// In the background, with errors to this file, else to the system's log, else nowhere.
    pub fn background(log: Option<&Path>) -> Result<Self> {
        let null =
            File::options().read(true).write(true).open("/dev/null").context("cannot open /dev/null")?;
        let log = match log {
            Some(path) => File::options()
                .create(true)
                .append(true)
                .open(path)
                .with_context(|| format!("cannot open the log {}", path.display()))?
                .into(),
            None => log_of_system().map_or_else(|| null.try_clone().map(OwnedFd::from), Ok)?,
        };
        Ok(Self::Background(Surroundings { null, log }))
    }

    /// Prints notes and reports the mount. In the background, leaves the terminal, the session and the working directory.
    pub fn announce(self, notes: impl Iterator<Item = String>) {
        notes.for_each(|note| eprintln!("segno: {note}"));
        if let Self::Background(surroundings) = self
            && let Err(e) = surroundings.detach()
        {
            // The mount works all the same.
            eprintln!("segno: the server could not detach from the terminal: {e}");
        }
    }
}

impl Surroundings {
    fn detach(self) -> io::Result<()> {
        rustix::process::setsid()?;
        // Otherwise ps(1) shows "exe", after /proc/self/exe.
        rustix::thread::set_name(c"segno")?;
        std::env::set_current_dir("/")?;
        let mut waiting = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        dup2_stdin(&self.null)?;
        dup2_stdout(&self.null)?;
        dup2_stderr(&self.log)?;
        // Whoever waits finds a server without descriptors that it does not need.
        drop(self);
        match waiting.write_all(READY) {
            // The command that waited was killed.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done,
        }
    }
}

/// Standard input of logger(1). A separate process: it also forwards the last message of a server that is killed.
fn log_of_system() -> Option<OwnedFd> {
    if !Path::new("/dev/log").exists() {
        return None;
    }
    let logger = Command::new("logger")
        .args(["-t", "segno", "-p", "daemon.err"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    Some(logger.ok()?.stdin.take()?.into())
}

/// Starts the server with these arguments. Returns when it responds at `dir`, or with its exit code.
pub fn spawn(args: &[OsString], dir: &Path) -> Result<ExitCode> {
    let mut child = Command::new("/proc/self/exe")
        .arg0("segno")
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the server")?;
    let mut output = Vec::new();
    if let Some(out) = child.stdout.take() {
        out.take(READY.len() as u64).read_to_end(&mut output).context("waiting for the server")?;
    }
    if output == READY {
        table::probe(dir).with_context(|| format!("the mount at {} does not respond", dir.display()))?;
        segno_fuse::probe_no_open(dir);
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().context("waiting for the server")?;
    let code = status.code().and_then(|c| u8::try_from(c).ok()).filter(|&c| c != 0);
    if status.code().is_none() {
        anyhow::bail!("the server died before the mount responded ({status})");
    }
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
