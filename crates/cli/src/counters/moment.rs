//! The counters at one moment.
use super::{Kind, Reading, Slow, read, value};
use anyhow::Result;
use std::path::Path;
use std::time::Instant;

/// When, and what they were.
pub struct Moment {
    pub at: Instant,
    pub readings: Vec<Reading>,
    pub slowest: Vec<Slow>,
}

impl Moment {
    /// Of the mount that has this file.
    pub fn read(path: &Path) -> Result<Self> {
        let (readings, slowest) = read(path)?;
        Ok(Self { at: Instant::now(), readings, slowest })
    }

    /// The change a second of a counter since an earlier moment, if it is a total.
    pub fn rate(&self, of: &Reading, earlier: &Self) -> Option<f64> {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let change = of.value.saturating_sub(value(&earlier.readings, &of.name));
        let rate = if seconds > 0.0 { change as f64 / seconds } else { 0.0 };
        (of.kind() == Some(Kind::Total)).then_some(rate)
    }
}
