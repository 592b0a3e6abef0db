//! What the background thread sleeps on.
use crate::sync::{Condvar, Mutex};
use std::time::Duration;

/// Why it woke up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The time is over.
    Due,
    /// Somebody asked.
    Asked,
    Stop,
}

/// See the module. A leaf lock.
#[derive(Debug, Default)]
pub struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
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
    /// Sleeps until there is a reason not to.
    pub fn wait(&self, at_most: Duration) -> Wake {
        let mut state = self.state.lock();
        if !state.asked && !state.stop {
            self.changed.wait_for(&mut state, at_most);
        }
        match (state.stop, std::mem::take(&mut state.asked)) {
            (true, _) => Wake::Stop,
            (false, true) => Wake::Asked,
            (false, false) => Wake::Due,
        }
    }
}

/// Every schedule of a sleeper and those who wake it: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// The time is never over here, so a wake-up that got lost is a thread that never ends.
    #[test]
    fn no_wake_up_is_lost() {
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
