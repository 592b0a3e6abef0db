//! The threads that take background steps.
use super::signal::{Signal, Wake};
use crate::volume::Volume;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Seconds between commits to a journal.
const JOURNAL_INTERVAL: u32 = 1;

/// Owns the threads; dropping it stops and joins them and those of writeback. They do not keep the volume alive, and end
/// by themselves when it is gone, unmounted or stopped.
#[derive(Debug)]
pub struct Background {
    volume: Weak<Volume>,
    threads: Vec<Stepper>,
}

/// A thread, and what it sleeps on.
#[derive(Debug)]
struct Stepper {
    signal: Arc<Signal>,
    thread: JoinHandle<()>,
}

impl Background {
    /// Starts the threads, unless the mount options do without or the volume is mounted read-only. Once per volume.
    pub fn start(volume: &Arc<Volume>) -> std::io::Result<Self> {
        let mut background = Self { volume: Arc::downgrade(volume), threads: Vec::new() };
        if !volume.opts.background || volume.opts.read_only {
            return Ok(background);
        }
        volume.wb.threads.allow(volume);
        volume.adjust_contexts();
        let (interval, signal) = (volume.opts.commit_interval.max(1), volume.signal.clone());
        let journal = volume.log().is_some();
        let step = if journal { JOURNAL_INTERVAL } else { interval };
        background.spawn("segno-background", signal, step, |v| _ = v.tick())?;
        if journal {
            background.spawn("segno-data", Arc::default(), interval, |v| _ = v.write_aged())?;
        }
        Ok(background)
    }

    /// Takes a step every so many seconds. An error keeps the pages dirty; the file's fsync tells of it, and the next step
    /// tries again.
    fn spawn(
        &mut self,
        name: &str,
        signal: Arc<Signal>,
        seconds: u32,
        step: fn(&Volume),
    ) -> std::io::Result<()> {
        let (woken, weak, interval) =
            (signal.clone(), self.volume.clone(), Duration::from_secs(seconds.into()));
        let thread =
            thread::Builder::new().name(name.into()).spawn(move || run(&woken, &weak, interval, step))?;
        self.threads.push(Stepper { signal, thread });
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.threads.iter().for_each(|s| s.signal.stop());
        for stepper in self.threads.drain(..) {
            // A panic there was reported there.
            let _ended = stepper.thread.join();
        }
        if let Some(volume) = self.volume.upgrade() {
            volume.wb.threads.stop();
        }
    }
}

fn run(signal: &Signal, volume: &Weak<Volume>, interval: Duration, step: fn(&Volume)) {
    let mut due = Instant::now() + interval;
    loop {
        let woken = signal.wait(due.saturating_duration_since(Instant::now()));
        let Some(volume) = volume.upgrade() else { return };
        if woken == Wake::Stop || volume.is_stopped() {
            return;
        }
        if Instant::now() >= due {
            step(&volume);
            due = Instant::now() + interval;
        } else if woken == Wake::Asked {
            let _later = volume.relieve_journal();
        }
    }
}
