//! The clock is supplied by the caller, so a run is a function of its seed.
use crate::types::Time;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

/// The engine's only source of time.
pub trait Clock: Send + Sync {
    /// Wall-clock time for file timestamps.
    fn now(&self) -> Time;

    /// Monotonic time since a fixed moment, for the ages of segments. Constant by default.
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        SystemTime::now().into()
    }

    fn uptime(&self) -> Duration {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGUN.elapsed()
    }
}
