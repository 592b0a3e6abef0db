//! A server that lives on behind the command that started it. Without fork: the command runs itself again, and the new
//! process says on its standard output when the mount answers. Until then its errors go to the user's terminal.
use super::table;
use anyhow::{Context, Result};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use segno_fuse::Started;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// What the server writes when it is there.
const READY: &[u8] = b"ready\n";

/// How a server tells that it is there.
#[derive(Clone, Copy, Debug)]
pub enum Readiness {
    /// It stays in front: nobody waits.
    InFront,
    /// The command that started it waits on its standard output.
    Behind,
}

impl Readiness {
    /// Announces the mount, says how requests come, and, behind, leaves the terminal, the session and the working directory.
    pub fn announce(self, started: &Started, verbose: bool, log: Option<&Path>) {
        eprintln!("segno: {}", started.transport);
        if verbose {
            eprintln!("segno: {}", started.mount_type);
        }
        if let Self::Behind = self
            && let Err(e) = detach(log)
        {
            // Serving matters more than being a perfect daemon.
            eprintln!("segno: the server could not leave the terminal: {e}");
        }
    }
}

fn detach(log: Option<&Path>) -> io::Result<()> {
    let log = log_to(log)?;
    rustix::process::setsid()?;
    // Otherwise ps(1) shows what it was started from: "exe".
    rustix::thread::set_name(c"segno")?;
    std::env::set_current_dir("/")?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    let mut out = io::stdout().lock();
    out.write_all(READY)?;
    out.flush()?;
    dup2_stdout(&null)?;
    dup2_stderr(&log)?;
    Ok(())
}

/// Where errors go once nobody sees them: the file asked for, or the system's log, or nowhere if there is none.
fn log_to(file: Option<&Path>) -> io::Result<OwnedFd> {
    if let Some(path) = file {
        return Ok(File::options().create(true).append(true).open(path)?.into());
    }
    if Path::new("/dev/log").exists() {
        // A process of its own: it passes on what a dying server says last.
        let logger =
            Command::new("logger").args(["-t", "segno", "-p", "daemon.err"]).stdin(Stdio::piped()).spawn();
        if let Some(pipe) = logger.ok().and_then(|mut l| l.stdin.take()) {
            return Ok(pipe.into());
        }
    }
    Ok(File::options().write(true).open("/dev/null")?.into())
}

/// Starts the server with these arguments and returns when it answers at `dir`, or with its exit code.
pub fn spawn(args: &[OsString], dir: &Path) -> Result<ExitCode> {
    let mut child = Command::new("/proc/self/exe")
        .arg0("segno")
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the server")?;
    let mut said = Vec::new();
    if let Some(out) = child.stdout.take() {
        out.take(READY.len() as u64).read_to_end(&mut said).context("waiting for the server")?;
    }
    if said == READY {
        table::ask(dir).with_context(|| format!("the mount at {} does not answer", dir.display()))?;
        segno_fuse::teach_silence(dir);
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().context("waiting for the server")?;
    let code = status.code().and_then(|c| u8::try_from(c).ok()).filter(|&c| c != 0);
    if status.code().is_none() {
        anyhow::bail!("the server died before the mount answered ({status})");
    }
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
