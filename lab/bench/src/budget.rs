//! Time budgets of runs.
use std::time::{Duration, Instant};

/// A time limit that starts at construction; `--quick` sets one.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    begun: Instant,
    limit: Option<Duration>,
}

impl Budget {
    /// Why a run is left out.
    pub const OVER: &str = "the time of --quick was over";

    pub fn of(limit: Duration) -> Self {
        Self { begun: Instant::now(), limit: Some(limit) }
    }

    pub fn unlimited() -> Self {
        Self { begun: Instant::now(), limit: None }
    }

    pub fn spent(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The remaining time; `None` without a limit.
    pub fn remaining(&self) -> Option<Duration> {
        self.limit.map(|l| l.saturating_sub(self.spent()))
    }

    /// A part of the budget that starts now, limited to the remaining time.
    #[must_use]
    pub fn fraction(&self, share: f64) -> Self {
        let limit = self.limit.map(|l| l.mul_f64(share).min(self.remaining().unwrap_or(l)));
        Self { begun: Instant::now(), limit }
    }

    /// Whether another round fits if it takes as long as the first `done` rounds did on average.
    pub fn has_time_for_another(&self, done: usize) -> bool {
        self.remaining().is_none_or(|remaining| self.spent().div_f64(done.max(1) as f64) <= remaining)
    }
}
