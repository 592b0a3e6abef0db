//! The engine's clock during a build.
use parking_lot::Mutex;
use segno_engine::{Clock, Time};

/// Stands still until it is set.
#[derive(Debug)]
pub(crate) struct BuildClock(Mutex<Time>);

impl BuildClock {
    pub(crate) fn new(time: Time) -> Self {
        Self(Mutex::new(time))
    }

    pub(crate) fn set(&self, time: Time) {
        *self.0.lock() = time;
    }
}

impl Clock for BuildClock {
    fn now(&self) -> Time {
        *self.0.lock()
    }
}
