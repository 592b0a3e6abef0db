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

    /// Changes a second of the totals since an earlier moment.
    pub fn rates(&self, earlier: &Self) -> Vec<(&str, f64)> {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let totals = self.readings.iter().filter(|r| r.kind() == Some(Kind::Total));
        let change = |r: &Reading| r.value.saturating_sub(value(&earlier.readings, &r.name));
        totals
            .map(|r| (r.name.as_str(), if seconds > 0.0 { change(r) as f64 / seconds } else { 0.0 }))
            .collect()
    }
}
