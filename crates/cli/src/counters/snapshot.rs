//! The counters at one moment.
use super::{Kind, Reading, Slow, slow, value, write_amplification};
use crate::image;
use anyhow::{Context, Result};
use segno_fuse::STATS_XATTR;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Instant;

/// Name of the figure that is computed from others.
pub const AMPLIFICATION: &str = "write_amplification";

/// The counters at one time.
pub struct CounterSnapshot {
    pub at: Instant,
    /// UUID of the volume, unless an older server does not report it.
    pub volume: Option<String>,
    /// In the server's order.
    pub readings: Vec<Reading>,
    pub slowest: Vec<Slow>,
}

impl CounterSnapshot {
    /// Of the mount that has this file.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = || format!("cannot read the counters of {}", path.display());
        Self::parse(&image::answer(path, STATS_XATTR).map_err(|e| image::unanswered(e, path, failed))?)
    }

    fn parse(text: &[u8]) -> Result<Self> {
        let all: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(text).context("the server's response is malformed")?;
        let readings = all.iter().filter_map(|(name, value)| Some(Reading::new(name, value.as_u64()?)));
        Ok(Self {
            at: Instant::now(),
            volume: all.get("volume").and_then(|id| id.as_str()).map(str::to_owned),
            readings: readings.collect(),
            slowest: slow::parse(all.get(slow::NAME)),
        })
    }

    /// The change a second of a counter since an earlier moment, if it is a total.
    pub fn rate(&self, of: &Reading, earlier: &Self) -> Option<f64> {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let change = of.value.saturating_sub(value(&earlier.readings, &of.name));
        let rate = if seconds > 0.0 { change as f64 / seconds } else { 0.0 };
        (of.kind() == Some(Kind::Total)).then_some(rate)
    }

    /// All of it by name.
    pub fn values(&self) -> Map<String, Value> {
        let mut all: Map<String, Value> =
            self.readings.iter().map(|r| (r.name.clone(), json!(r.value))).collect();
        all.insert(AMPLIFICATION.into(), json!(write_amplification(&self.readings)));
        all.insert(slow::NAME.into(), json!(self.slowest));
        all
    }
}
