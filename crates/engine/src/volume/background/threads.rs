//! Threads that run background steps.
use crate::commit::{Signal, Wake};
use crate::room::Rule;
use crate::volume::Volume;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Seconds between commits to a journal.
const JOURNAL_INTERVAL: u32 = 1;

/// Owns the threads; drop stops and joins them and the writeback threads. They hold no reference to the volume, and
/// end when it is dropped, unmounted or stopped.
#[derive(Debug)]
pub struct Background {
    volume: Weak<Volume>,
    threads: Vec<Stepper>,
}

/// Part of a thread's work.
type Step = fn(&Volume);

/// A thread and its wakeup signal.
#[derive(Debug)]
struct Stepper {
    signal: Arc<Signal>,
    thread: JoinHandle<()>,
}

impl Background {
    /// Starts the threads, unless the mount is read-only or its options disable them. Once per volume.
    pub fn start(volume: &Arc<Volume>) -> std::io::Result<Self> {
        let mut background = Self { volume: Arc::downgrade(volume), threads: Vec::new() };
        if !volume.base.opts.background || volume.base.opts.read_only {
            return Ok(background);
        }
        volume.writeback.threads.allow(&volume.writeback);
        volume.writeback.adjust_contexts();
        let (interval, signal) = (volume.base.opts.commit_interval.max(1), volume.commit.signal.clone());
        let journal = volume.commit.journal().is_some();
        let step = if journal { JOURNAL_INTERVAL } else { interval };
        let relieve: Step = |v| _ = v.commit.relieve_journal();
        background.spawn("segno-background", signal, step, |v| _ = v.tick(), relieve)?;
        if journal {
            let write: Step = |v| _ = v.write_aged();
            background.spawn("segno-data", Arc::default(), interval, write, write)?;
        }
        if volume.files.room.rule == Rule::Paced {
            let (signal, clean): (Arc<Signal>, Step) = (Arc::default(), |v| _ = v.gc.catch_up());
            background.spawn("segno-cleaner", signal.clone(), interval, clean, clean)?;
            volume.gc.clean_on(signal);
        }
        Ok(background)
    }

    /// Runs a step at a fixed interval, and another one when woken. After an error the pages stay dirty, fsync of the file
    /// reports it, and the next step retries.
    fn spawn(
        &mut self,
        name: &str,
        signal: Arc<Signal>,
        seconds: u32,
        step: Step,
        asked: Step,
    ) -> std::io::Result<()> {
        let (woken, weak, interval) =
            (signal.clone(), self.volume.clone(), Duration::from_secs(seconds.into()));
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(move || run(&woken, &weak, interval, (step, asked)))?;
        self.threads.push(Stepper { signal, thread });
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.threads.iter().for_each(|s| s.signal.stop());
        for stepper in self.threads.drain(..) {
            // A panic of the thread was already reported.
            let _ended = stepper.thread.join();
        }
        if let Some(volume) = self.volume.upgrade() {
            volume.writeback.threads.stop();
        }
    }
}

fn run(signal: &Signal, volume: &Weak<Volume>, interval: Duration, (step, asked): (Step, Step)) {
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
            asked(&volume);
        }
    }
}
