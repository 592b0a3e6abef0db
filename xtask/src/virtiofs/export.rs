//! The server's process.

use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::Place;

/// Longer than any server takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Killed when it is dropped.
pub struct Export(Child);

impl Export {
    /// Starts a server and waits until it listens.
    pub fn start(place: &Place, options: &str) -> Result<Self> {
        let mut command = Command::new(&place.segno);
        command.arg("export").arg("--vhost-user").arg(&place.socket);
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        let mut export = Self(command.arg(&place.image).spawn().context("starting segno export")?);
        let begun = Instant::now();
        while !place.socket.exists() {
            if let Some(status) = export.0.try_wait()? {
                bail!("segno export ended with {status}");
            }
            ensure!(begun.elapsed() < PATIENCE, "segno export does not listen");
            sleep(Duration::from_millis(20));
        }
        Ok(export)
    }

    /// Waits for the end; the server ends with the guest.
    pub fn end(mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                ensure!(status.success(), "segno export ended with {status}");
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "segno export does not end");
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}
