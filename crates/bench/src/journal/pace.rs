//! Commits and checkpoints at fixed intervals, as those of the engine are too long for short runs.
use anyhow::{Result, anyhow};
use segno_engine::Volume;
use segno_engine::lab::Probe;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The thread that commits; it must be ended explicitly.
pub struct Pacer {
    stop: Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Pacer {
    /// Everything is committed every `interval`; each `apply_every`-th time by a checkpoint. Without a journal each commit
    /// is one.
    pub fn start(volume: &Arc<Volume>, interval: Duration, apply_every: u32) -> Self {
        let (stop, stopped) = channel();
        let volume = volume.clone();
        let thread = thread::spawn(move || {
            let mut commits = 0;
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                commits += 1;
                if commits % apply_every == 0 { Probe(&volume).checkpoint()? } else { volume.sync()? }
            }
            Ok(())
        });
        Self { stop, thread }
    }

    /// Stops the thread and returns its first error.
    pub fn end(self) -> Result<()> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow!("the pacer panicked"))?
    }
}
