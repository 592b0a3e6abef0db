//! The thread that takes background steps.
use super::signal::{Signal, Wake};
use crate::volume::Volume;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Seconds between commits to a journal.
const JOURNAL_INTERVAL: u32 = 1;

/// Owns the thread; dropping it stops and joins it and those of writeback. The thread does not keep the volume alive, and
/// ends by itself when the volume is gone, unmounted or stopped.
#[derive(Debug)]
pub struct Background {
    signal: Arc<Signal>,
    volume: Weak<Volume>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread, unless the mount options do without it or the volume is mounted read-only. One per volume.
    pub fn start(volume: &Arc<Volume>) -> std::io::Result<Self> {
        let (signal, weak) = (volume.signal.clone(), Arc::downgrade(volume));
        if !volume.opts.background || volume.opts.read_only {
            return Ok(Self { signal, volume: weak, thread: None });
        }
        volume.wb.threads.allow(volume);
        volume.adjust_contexts();
        let seconds =
            if volume.log().is_some() { JOURNAL_INTERVAL } else { volume.opts.commit_interval.max(1) };
        let interval = Duration::from_secs(seconds.into());
        let thread = {
            let (signal, weak) = (signal.clone(), weak.clone());
            thread::Builder::new()
                .name("segno-background".into())
                .spawn(move || run(&signal, &weak, interval))?
        };
        Ok(Self { signal, volume: weak, thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.signal.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported there.
            let _ended = thread.join();
        }
        if let Some(volume) = self.volume.upgrade() {
            volume.wb.threads.stop();
        }
    }
}

fn run(signal: &Signal, volume: &Weak<Volume>, interval: Duration) {
    let mut due = Instant::now() + interval;
    loop {
        let woken = signal.wait(due.saturating_duration_since(Instant::now()));
        let Some(volume) = volume.upgrade() else { return };
        if woken == Wake::Stop || volume.is_stopped() {
            return;
        }
        // An error keeps the pages dirty; the file's fsync tells of it, and the next step tries again.
        if Instant::now() >= due {
            let _later = volume.tick();
            due = Instant::now() + interval;
        } else if woken == Wake::Asked {
            let _later = volume.relieve_journal();
        }
    }
}
