//! A schedule of commits and checkpoints faster than that of the engine, whose intervals are too long for short runs.
use super::mode::Mode;
use anyhow::{Result, anyhow};
use segno_engine::Volume;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two looks at the clock.
const LOOK: Duration = Duration::from_micros(500);

/// What counts as a second of the schedule.
#[derive(Clone)]
pub enum Clock {
    Elapsed {
        second: Duration,
    },
    /// A number of the calls that are counted here: rows of a fixed amount of work have the same schedule on every machine.
    Calls {
        second: u64,
        done: Arc<AtomicU64>,
    },
}

impl Clock {
    fn second(&self, begun: Instant) -> u64 {
        match self {
            Self::Elapsed { second } => (begun.elapsed().as_nanos() / second.as_nanos().max(1)) as u64,
            Self::Calls { second, done } => done.load(Ordering::Relaxed) / (*second).max(1),
        }
    }
}

/// The threads that keep the schedule, one for data and one for metadata as in the product; they must be ended explicitly.
pub struct Pacer {
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Pacer {
    pub fn start(volume: &Arc<Volume>, mode: Mode, clock: &Clock) -> Self {
        let begun = Instant::now();
        let start = |step: fn(Mode, &Volume, u64, u64) -> Result<()>| {
            let (stop, stopped) = channel();
            let (volume, clock) = (volume.clone(), clock.clone());
            let keep = move || {
                let mut last = 0;
                while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    let now = clock.second(begun);
                    if now > last {
                        step(mode, &volume, last, now)?;
                        last = now;
                    }
                }
                Ok(())
            };
            (stop, thread::spawn(keep))
        };
        let (stop, threads) = [start(Mode::write_data), start(Mode::commit)].into_iter().unzip();
        Self { stop, threads }
    }

    /// Stops the threads and returns the first error.
    pub fn end(self) -> Result<()> {
        drop(self.stop);
        self.threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("the schedule panicked"))?)
    }
}
