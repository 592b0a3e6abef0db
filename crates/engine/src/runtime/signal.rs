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
