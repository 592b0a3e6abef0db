//! How long a run may take.
use std::time::{Duration, Instant};

/// A time limit that began when it was made; `--quick` has one.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    begun: Instant,
    limit: Option<Duration>,
}

impl Budget {
    pub fn of(limit: Duration) -> Self {
        Self { begun: Instant::now(), limit: Some(limit) }
    }

    pub fn unlimited() -> Self {
        Self { begun: Instant::now(), limit: None }
    }

    pub fn spent(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What is left; `None` without a limit.
    pub fn left(&self) -> Option<Duration> {
        self.limit.map(|l| l.saturating_sub(self.spent()))
    }

    /// A part of the budget that begins now, and is never more than what is left.
    #[must_use]
    pub fn part(&self, share: f64) -> Self {
        let limit = self.limit.map(|l| l.mul_f64(share).min(self.left().unwrap_or(l)));
        Self { begun: Instant::now(), limit }
    }

    /// Whether one more round fits if it takes as long as the `done` ones did on average.
    pub fn has_time_for_another(&self, done: usize) -> bool {
        self.left().is_none_or(|left| self.spent().div_f64(done.max(1) as f64) <= left)
    }
}
