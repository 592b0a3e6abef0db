//! `-o auto_unmount`: a process that outlives its server and unmounts when the server is killed. It has no descriptor of the
//! connection, waits for the end of a pipe that only the server writes to, and unmounts no mount but the one that the
//! server named: not one that covers it, nor one that has taken its place.
use crate::mount;
use crate::mount_id::MountId;
use rustix::process::setsid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;

/// Sent after the mount when it has ended.
const ENDED: u8 = 1;

/// The process, as its server knows it. The pipe closes with the server, however it ends.
pub(crate) struct Watcher {
    pipe: ChildStdin,
}

impl Watcher {
    /// Starts a process that calls [`unmount_orphan`].
    pub(crate) fn start(mut command: Command, dir: &Path) -> io::Result<Self> {
        // It shall keep neither a terminal nor a directory busy.
        let command = command.arg(dir).current_dir("/").stdin(Stdio::piped());
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|e| {
            io::Error::new(
                e.kind(),
                format!("the process that unmounts for auto_unmount cannot be started: {e}"),
            )
        })?;
        let pipe =
            process.stdin.take().ok_or_else(|| io::Error::other("the pipe of auto_unmount is missing"))?;
        Ok(Self { pipe })
    }

    /// From now on the end of this process ends the mount.
    pub(crate) fn watch(&mut self, mount: MountId) -> io::Result<()> {
        self.pipe.write_all(&mount.to_bytes())
    }

    /// The mount has ended: its number may be that of another one on kernels before 6.8.
    pub(crate) fn dismiss(mut self) {
        // If its process is gone, nothing is unmounted either.
        let _sent = self.pipe.write_all(&[ENDED]);
    }
}

/// The process that a server starts for `auto_unmount`, with the end of a pipe as standard input. Returns after the server
/// has ended.
pub fn unmount_orphan(dir: &Path) -> io::Result<()> {
    // Ctrl-C in the terminal of the server, and SIGTERM to all processes of a service, are for the server.
    let _leads_already = setsid();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let mut said = Vec::new();
    io::stdin().take(MountId::BYTES as u64 + 1).read_to_end(&mut said)?;
    match MountId::from_bytes(&said) {
        Some(mount) if MountId::at(dir).is_ok_and(|found| found == mount) => mount::detach_of_another(dir),
        // It has ended, was never made, is covered by another, or was moved.
        _ => Ok(()),
    }
}
