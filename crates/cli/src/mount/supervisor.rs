//! `-o restart=remount`: a process without a volume that starts the server of a mount, and starts it again when it has died.
//!
//! The broker of the server that died has detached the dead mount before it ends, and this process waits for
//! both: it is the reaper of its descendants. If the broker was killed first, this process detaches the
//! mount. So the directory is free when the next server starts, unless another process has mounted there.
use super::background::{Readiness, start};
use super::table;
use crate::exit::Outcome;
use crate::{image, out};
use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, set_child_subreaper, wait,
};
use segno::inspect;
use segno_device::{Mount, observe_storage};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use std::ffi::OsString;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Exit code of a server whose volume has stopped: EX_TEMPFAIL.
pub const STOPPED: u8 = 75;
/// So many deaths within this time are no accidents.
const DEATHS: usize = 3;
const WITHIN: Duration = Duration::from_secs(60);

/// A mount that is restored after the death of its server.
pub struct Supervisor {
    pub image: PathBuf,
    pub dir: PathBuf,
    /// Command line of the server.
    pub server: Vec<OsString>,
    /// Its messages are this process's.
    pub foreground: bool,
}

/// How a server ended.
enum End {
    /// By an unmount or a signal to it.
    Unmounted,
    /// Its volume has stopped.
    Stopped,
    /// It was killed or failed: how.
    Died(String),
}

impl Supervisor {
    /// Keeps the mount until it is unmounted; reports when the first server responds.
    pub fn run(&self, readiness: Readiness, verbose: bool) -> Outcome {
        set_child_subreaper(Some(getpid())).context("cannot become the reaper of servers")?;
        let signals = Signals::register()?;
        let below = mounts_at(&self.dir)?.len();
        let uuid = self.uuid();
        let (mut child, is_ready) = start(&mut self.command(false))?;
        if !is_ready {
            let code = child.wait().context("waiting for the server")?.code();
            let code = code.and_then(|c| u8::try_from(c).ok()).filter(|&c| c != 0);
            return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
        }
        readiness.announce(verbose.then(|| "mounted again if its server dies".to_owned()).into_iter());
        let mut deaths = Deaths::default();
        let mut read_only = false;
        loop {
            let mut why = match self.wait(&mut child, &signals)? {
                End::Unmounted => return Ok(ExitCode::SUCCESS),
                End::Stopped => {
                    read_only = true;
                    "stopped its volume".to_owned()
                }
                End::Died(how) => how,
            };
            child = loop {
                let now = Instant::now();
                if deaths.add(now) >= DEATHS {
                    return Err(self.given_up(&format!(
                        "it ended {DEATHS} times within a minute, the last time: {why}"
                    )));
                }
                self.detach_dead(below)?;
                if mounts_at(&self.dir)?.len() != below {
                    return Err(self.given_up(&format!("it {why}, and something else is mounted there now")));
                }
                if self.uuid() != uuid {
                    return Err(self.given_up(&format!(
                        "it {why}, and {} has another volume now",
                        self.image.display()
                    )));
                }
                let (image, dir) = (self.image.display(), self.dir.display());
                eprintln!("segno: the server of {image} at {dir} {why}; mounting again");
                match self.again(read_only, now)? {
                    Ok(child) => break child,
                    Err(how) => why = how,
                }
            };
        }
    }

    /// Unmounts the dead mount where its broker was killed before it.
    fn detach_dead(&self, below: usize) -> Result<()> {
        let mounts = mounts_at(&self.dir)?;
        let is_this = |top: &Mount| top.is_ours() && top.source == self.image;
        if mounts.len() == below + 1
            && mounts.last().is_some_and(is_this)
            && table::probe(&self.dir).is_err_and(image::is_dead)
        {
            segno_fuse::detach_dead(&self.dir)
                .with_context(|| format!("cannot unmount {}", self.dir.display()))?;
        }
        Ok(())
    }

    /// The UUID of the volume; none if it cannot be read here, as that of an object store.
    fn uuid(&self) -> Option<[u8; 16]> {
        let device = observe_storage(&self.image).ok()?;
        Some(inspect::superblock(&*device).ok()?.raw.uuid)
    }

    /// Starts the next server. Returns the reason if that one died.
    fn again(&self, read_only: bool, death: Instant) -> Result<Result<Child, String>> {
        let mut command = self.command(read_only);
        if !self.foreground {
            command.stderr(Stdio::piped());
        }
        let (mut child, is_ready) = start(&mut command)?;
        if !is_ready {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                // Shows the part of the messages that arrived.
                let _cut = stderr.read_to_string(&mut said);
            }
            let status = child.wait().context("waiting for the server")?;
            while wait(WaitOptions::empty()).is_ok() {}
            return match (status.signal(), End::of(status)) {
                (Some(_), End::Died(how)) => Ok(Err(how)),
                _ => Err(self.given_up(said.trim().trim_start_matches("segno: "))),
            };
        }
        segno_fuse::probe_no_open(&self.dir);
        let mode = if read_only { " read-only" } else { "" };
        let dir = self.dir.display();
        out::event(format_args!("{dir} is mounted again{mode} after {} ms", death.elapsed().as_millis()));
        Ok(Ok(child))
    }

    fn command(&self, read_only: bool) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(["mount", "--kept", if self.foreground { "--foreground" } else { "--detach" }]);
        command.args(&self.server);
        if read_only {
            command.args(["-o", "ro"]);
        }
        command.arg("--").args([&self.image, &self.dir]);
        command
    }

    /// Waits until the server and its broker have ended. Signals are passed on.
    fn wait(&self, child: &mut Child, signals: &Signals) -> Result<End> {
        let pid = Pid::from_child(child);
        let server = pidfd_open(pid, PidfdFlags::empty()).context("waiting for the server")?;
        segno_fuse::release_memory().context("cannot release memory")?;
        loop {
            let mut both = [PollFd::new(&server, PollFlags::IN), PollFd::new(&signals.0, PollFlags::IN)];
            match poll(&mut both, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e).context("waiting for the server"),
            }
            if signals.take() {
                // It has ended already.
                let _gone = kill_process(pid, Signal::TERM);
            }
            if is_readable(&server) {
                break;
            }
        }
        let status = child.wait().context("waiting for the server")?;
        // The broker has detached the mount when it ends.
        while wait(WaitOptions::empty()).is_ok() {}
        Ok(End::of(status))
    }

    fn given_up(&self, why: &str) -> anyhow::Error {
        let (image, dir) = (self.image.display(), self.dir.display());
        anyhow!(
            "the server of {image} at {dir} is not started again: {why}. `segno check {image}` shows the state of the volume, \
             `segno mount {image} {dir}` mounts it"
        )
    }
}

/// Times of the latest deaths.
#[derive(Default)]
struct Deaths(Vec<Instant>);

impl Deaths {
    /// Adds a death. Returns the number of deaths within the last [`WITHIN`].
    fn add(&mut self, now: Instant) -> usize {
        self.0.push(now);
        self.0.retain(|death| now.duration_since(*death) < WITHIN);
        self.0.len()
    }
}

impl End {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(0), _) => Self::Unmounted,
            (Some(code), _) if code == i32::from(STOPPED) => Self::Stopped,
            (Some(code), _) => Self::Died(format!("failed with exit code {code}")),
            (None, Some(signal)) => Self::Died(format!("was killed by signal {signal}")),
            (None, None) => Self::Died(format!("ended with {status}")),
        }
    }
}

/// Signals that end the mount, as bytes to read.
struct Signals(UnixStream);

impl Signals {
    fn register() -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("cannot receive signals")?;
        ours.set_nonblocking(true).context("cannot receive signals")?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            pipe::register(signal, theirs.try_clone()?).context("cannot receive signals")?;
        }
        Ok(Self(ours))
    }

    /// Whether any signal arrived since the last call.
    fn take(&self) -> bool {
        let mut bytes = [0; 16];
        (&self.0).read(&mut bytes).is_ok_and(|n| n > 0)
    }
}

fn is_readable(fd: &OwnedFd) -> bool {
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// The mounts at a directory, of all kinds.
fn mounts_at(dir: &Path) -> Result<Vec<Mount>> {
    let mounts = Mount::all().context("cannot read the mount table")?;
    Ok(mounts.into_iter().filter(|mount| mount.dir == dir).collect())
}
