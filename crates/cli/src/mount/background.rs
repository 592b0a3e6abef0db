//! A server that continues in the background. Instead of forking, the command executes itself again, and the new process
//! reports on its standard output when the mount responds. Until then its errors go to the user's terminal.
use super::table;
use crate::out;
use anyhow::{Context, Result};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use segno_fuse::{Severity, SystemLog};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;

/// Written by the server when the mount responds.
const READY: &[u8] = b"ready\n";

/// How a server reports that the mount responds.
#[derive(Debug)]
pub enum Readiness {
    /// Its messages are shown to the user who started it; systemd may wait for it.
    Foreground(Option<Systemd>),
    /// The process that started it waits on its standard output, and shows its messages. The file then
    /// replaces standard output.
    Kept(File),
    /// The command that started it waits on its standard output.
    Background(DetachedOutput),
}

/// systemd, which waits for a service of type notify.
#[derive(Debug)]
pub struct Systemd(UnixDatagram);

impl Systemd {
    /// Connects to it, if it waits.
    pub fn open() -> Option<Self> {
        let path = std::env::var_os("NOTIFY_SOCKET")?;
        let address = match path.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(&path),
        };
        let socket = UnixDatagram::unbound().ok()?;
        socket.connect_addr(&address.ok()?).ok()?;
        Some(Self(socket))
    }

    fn ready(&self) {
        // If it does not arrive, systemd reports that.
        let _unsent = self.0.send(b"READY=1");
    }

    /// Says why the service ends: `systemctl status` shows it until the next start, and of the log only the lines of the last attempt.
    pub fn failed(&self, why: &str) {
        // The log has it too.
        let _unsent = self.0.send(format!("STATUS={why}").as_bytes());
    }
}

/// Replacements of the terminal, opened before the server drops the right to open files.
#[derive(Debug)]
pub struct DetachedOutput {
    null: File,
    log: Log,
}

/// Where messages go.
#[derive(Debug)]
enum Log {
    File(File),
    System(SystemLog),
    Nowhere,
}

impl Readiness {
    pub fn foreground() -> Self {
        Self::Foreground(Systemd::open())
    }

    pub fn kept() -> Result<Self> {
        Ok(Self::Kept(null()?))
    }

    /// In the background, with errors to this file, else to the system's log, else nowhere.
    pub fn background(log: Option<&Path>) -> Result<Self> {
        let null = null()?;
        let log = match log {
            Some(path) => {
                let file = File::options().create(true).append(true).open(path);
                Log::File(file.with_context(|| format!("cannot open the log {}", path.display()))?)
            }
            None => SystemLog::open().map_or(Log::Nowhere, Log::System),
        };
        Ok(Self::Background(DetachedOutput { null, log }))
    }

    /// Prints notes and reports the mount. In the background, leaves the terminal, the session and the working directory.
    pub fn announce(self, notes: impl Iterator<Item = String>) {
        notes.for_each(|note| eprintln!("segno: {note}"));
        let detached = match self {
            Self::Foreground(systemd) => return systemd.iter().for_each(Systemd::ready),
            Self::Kept(null) => leave_output(null),
            Self::Background(surroundings) => surroundings.detach(),
        };
        if let Err(e) = detached {
            // The mount works nevertheless.
            eprintln!("segno: the server could not detach from the terminal: {e}");
        }
    }
}

fn null() -> Result<File> {
    File::options().read(true).write(true).open("/dev/null").context("cannot open /dev/null")
}

/// Reports the mount to the process that waits on standard output, and closes standard output.
fn leave_output(null: File) -> io::Result<()> {
    let mut waiting = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    dup2_stdout(null)?;
    tell(&mut waiting)
}

fn tell(waiting: &mut File) -> io::Result<()> {
    match waiting.write_all(READY) {
        // The command that waited was killed.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

impl DetachedOutput {
    fn detach(self) -> io::Result<()> {
        rustix::process::setsid()?;
        // Otherwise ps(1) shows "exe", after /proc/self/exe.
        rustix::thread::set_name(c"segno")?;
        std::env::set_current_dir("/")?;
        let mut waiting = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        dup2_stdin(&self.null)?;
        dup2_stdout(&self.null)?;
        match self.log {
            Log::File(file) => dup2_stderr(file)?,
            Log::System(log) => pass_on(log)?,
            Log::Nowhere => dup2_stderr(&self.null)?,
        }
        out::is_logged();
        // The server has no unneeded descriptors when the waiting process continues.
        drop(self.null);
        tell(&mut waiting)
    }
}

/// Makes standard error lead to the system's log, by a thread: panics and libraries write there, too.
fn pass_on(log: SystemLog) -> io::Result<()> {
    let (lines, stderr) = io::pipe()?;
    thread::Builder::new().name("log".into()).spawn(move || {
        for line in BufReader::new(lines).lines().map_while(io::Result::ok) {
            match line.strip_prefix(out::NOTE) {
                Some(text) => log.line(Severity::Info, text),
                None => log.line(Severity::Error, line.strip_prefix("segno: ").unwrap_or(&line)),
            }
        }
    })?;
    Ok(dup2_stderr(stderr)?)
}

/// Starts a server, and returns when its mount responds or it has ended.
pub fn start(server: &mut Command) -> Result<(Child, bool)> {
    let mut child = server
        .arg0("segno")
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the server")?;
    let mut output = Vec::new();
    if let Some(out) = child.stdout.take() {
        out.take(READY.len() as u64).read_to_end(&mut output).context("waiting for the server")?;
    }
    Ok((child, output == READY))
}

/// Starts the server with these arguments. Returns when it responds at `dir`, or with the exit code of a server that has said why not.
pub fn spawn(args: &[OsString], dir: &Path) -> Result<Option<ExitCode>> {
    let (mut child, is_ready) = start(Command::new("/proc/self/exe").args(args))?;
    if is_ready {
        table::probe(dir).with_context(|| format!("the mount at {} does not respond", dir.display()))?;
        segno_fuse::probe_no_open(dir);
        return Ok(None);
    }
    let status = child.wait().context("waiting for the server")?;
    let code = status.code().and_then(|c| u8::try_from(c).ok()).filter(|&c| c != 0);
    if status.code().is_none() {
        anyhow::bail!("the server died before the mount responded ({status})");
    }
    Ok(Some(code.map_or(ExitCode::FAILURE, ExitCode::from)))
}
