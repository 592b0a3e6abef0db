//! The data of a report.
use crate::commands::mounts::given;
use crate::counters::{self, CounterSnapshot, Reading};
use crate::image;
use crate::segments::Segments;
use crate::usage::Usage;
use anyhow::{Context, Result};
use segno_fuse::OPTIONS_XATTR;
use serde::Serialize;
use std::path::Path;

/// A volume, and of a mount its counters.
pub struct State<'a> {
    /// As the caller named it.
    pub name: String,
    pub segments: &'a Segments,
    pub counters: Option<CounterSnapshot>,
    /// Options given to a mount with `-o`.
    pub options: Vec<String>,
    pub space: Space,
}

/// Bytes for files: of a mount at this moment, as df(1) shows them, else as of the last checkpoint.
#[derive(Clone, Copy, Serialize)]
pub struct Space {
    pub size_bytes: u64,
    pub used_bytes: u64,
    pub available_bytes: u64,
}

impl<'a> State<'a> {
    pub fn of(volume: &Path, segments: &'a Segments) -> Result<Self> {
        let is_mount = volume.is_dir();
        let space = if is_mount { Space::of_mount(volume)? } else { Space::of_volume(segments) };
        let counters = is_mount.then(|| CounterSnapshot::read(volume)).transpose()?;
        let options = if is_mount { options(volume)? } else { Vec::new() };
        Ok(Self { name: volume.display().to_string(), segments, counters, options, space })
    }

    /// Those of a mount.
    pub fn readings(&self) -> Option<&[Reading]> {
        self.counters.as_ref().map(|snapshot| snapshot.readings.as_slice())
    }

    /// With which options it is mounted, how full its journal is, and when segments are discarded.
    pub fn rows_of_mount(&self) -> Vec<(&'static str, String)> {
        let Some(readings) = self.readings() else { return Vec::new() };
        let value = |name| counters::value(readings, name);
        let human = segno_format::size::human;
        let journal = match value("journal_bytes_size") {
            0 => "none".to_owned(),
            size => format!("{} of {} in use", human(value("journal_bytes_used")), human(size)),
        };
        let waiting = value("undiscarded_segments");
        let discard = match value("discard_never") {
            0 => format!("{} segments so far, {waiting} wait", value("discards")),
            _ => "on request only".to_owned(),
        };
        let options = if self.options.is_empty() { "none".to_owned() } else { self.options.join(",") };
        vec![("Options", options), ("Journal", journal), ("Discard", discard)]
    }
}

fn options(dir: &Path) -> Result<Vec<String>> {
    let failed = || format!("cannot read the options of {}", dir.display());
    let text = image::answer(dir, OPTIONS_XATTR).map_err(|e| image::unanswered(e, dir, failed))?;
    Ok(given(&serde_json::from_slice(&text).with_context(failed)?))
}

impl Space {
    fn of_mount(dir: &Path) -> Result<Self> {
        let failed = || format!("cannot read the space of {}", dir.display());
        let found = rustix::fs::statvfs(dir).map_err(|e| image::unanswered(e, dir, failed))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Self {
            size_bytes: bytes(found.f_blocks),
            used_bytes: bytes(found.f_blocks.saturating_sub(found.f_bfree)),
            available_bytes: bytes(found.f_bavail),
        })
    }

    fn of_volume(segments: &Segments) -> Self {
        let usage = Usage::of(&segments.superblock, &segments.checkpoint);
        let available_bytes = usage.user.saturating_sub(usage.used);
        Self { size_bytes: usage.user, used_bytes: usage.used, available_bytes }
    }

    /// Of the bytes that are used or available.
    pub fn percent(&self) -> u64 {
        let all = self.used_bytes.saturating_add(self.available_bytes);
        self.used_bytes.saturating_mul(100).checked_div(all).unwrap_or(0)
    }
}
