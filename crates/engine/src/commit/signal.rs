//! Wakeup signal of the background thread.
use crate::sync::{Condvar, Mutex};
use std::time::Duration;

/// Reason for a wakeup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The timeout expired.
    Due,
    /// Another thread requested a step.
    Asked,
    Stop,
}

/// The signal. Its lock is a leaf.
#[derive(Debug, Default)]
pub struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    asked: bool,
    stop: bool,
}

impl Signal {
    pub fn wake(&self) {
        let mut state = self.state.lock();
        if !state.asked {
            state.asked = true;
            self.changed.notify_all();
        }
    }
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }
    /// Sleeps until a wakeup or the timeout.
    pub fn wait(&self, timeout: Duration) -> Wake {
        let mut state = self.state.lock();
        if !state.asked && !state.stop {
            self.changed.wait_for(&mut state, timeout);
        }
        match (state.stop, std::mem::take(&mut state.asked)) {
            (true, _) => Wake::Stop,
            (false, true) => Wake::Asked,
            (false, false) => Wake::Due,
        }
    }
}

/// Explores all schedules of a sleeper and its wakers: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// The model has no timeout, so a lost wakeup is a thread that never ends.
    #[test]
    fn no_wakeup_is_lost() {
        loom::model(|| {
            let signal = Arc::new(Signal::default());
            let sleeper = {
                let signal = signal.clone();
                thread::spawn(move || {
                    let mut asked = 0;
                    while signal.wait(Duration::from_secs(1)) != Wake::Stop {
                        asked += 1;
                    }
                    asked
                })
            };
            let waker = {
                let signal = signal.clone();
                thread::spawn(move || signal.wake())
            };
            waker.join().unwrap();
            signal.stop();
            assert!(sleeper.join().unwrap() <= 1);
        });
    }
}
