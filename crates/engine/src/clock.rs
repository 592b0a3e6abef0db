//! The clock is supplied by the caller, so a run is a function of its seed.
use crate::types::Time;

/// The engine's only source of time.
pub trait Clock: Send + Sync {
    /// Wall-clock time for file timestamps.
    fn now(&self) -> Time;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Time { secs: since.as_secs().cast_signed(), nsec: since.subsec_nanos() }
    }
}
