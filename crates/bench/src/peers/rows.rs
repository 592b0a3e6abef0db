//! The timed workloads, one row each. Every row has its own directory and returns the number of units of work.
use super::{data, files, tree};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// Amounts of work.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scale {
    pub files: usize,
    pub big_mib: usize,
    pub random_ops: usize,
    pub fsyncs: usize,
    pub transactions: usize,
}

impl Scale {
    pub const FULL: Self =
        Self { files: 10_000, big_mib: 1024, random_ops: 50_000, fsyncs: 2_000, transactions: 1_000 };
    pub const QUICK: Self =
        Self { files: 2_000, big_mib: 128, random_ops: 5_000, fsyncs: 200, transactions: 100 };
    #[cfg(test)]
    pub const TINY: Self = Self { files: 20, big_mib: 1, random_ops: 10, fsyncs: 20, transactions: 2 };
}

pub type Work = fn(&Path, Scale) -> Result<usize>;

pub struct Row {
    pub name: &'static str,
    pub unit: &'static str,
    /// Remounted before with empty kernel caches.
    pub cold: bool,
    /// Works on names and attributes rather than on contents.
    pub metadata: bool,
    /// Untimed preparation.
    before: Option<Work>,
    work: Work,
}

impl Row {
    /// Prepares the row.
    pub fn prepare(&self, dir: &Path, scale: Scale) -> Result<()> {
        let made = self.before.map(|make| make(dir, scale)).transpose();
        made.map(drop).with_context(|| format!("what row '{}' needs", self.name))
    }

    /// Runs the row; returns units per second.
    pub fn rate(&self, dir: &Path, scale: Scale) -> Result<f64> {
        let begun = Instant::now();
        let units = (self.work)(dir, scale).with_context(|| format!("row '{}'", self.name))?;
        Ok(units as f64 / begun.elapsed().as_secs_f64())
    }
}

const fn row(name: &'static str, unit: &'static str, cold: bool, metadata: bool, work: Work) -> Row {
    Row { name, unit, cold, metadata, before: None, work }
}

const fn after(before: Work, row: Row) -> Row {
    Row { before: Some(before), ..row }
}

/// In the order they run: later ones use what earlier ones made.
pub const ROWS: &[Row] = &[
    row("create empty", "files/s", false, true, files::create_empty),
    row("list cold", "names/s", true, true, files::list_all),
    row("list warm", "names/s", false, true, files::list_all),
    row("stat cold", "files/s", true, true, files::stat_all),
    row("stat warm", "files/s", false, true, files::stat_all),
    row("unlink empty", "files/s", false, true, files::unlink_empty),
    after(files::create_empty, row("unlink cold", "files/s", true, true, files::unlink_empty)),
    row("create 4 KiB", "files/s", false, true, files::create_small),
    row("read 4 KiB files cold", "files/s", true, false, files::read_small),
    row("copy 4 KiB", "files/s", false, false, files::copy_small),
    row("unlink 4 KiB", "files/s", false, true, files::unlink_small),
    row("varmail", "loops/s", false, false, files::varmail),
    row("untar", "files/s", false, false, tree::untar),
    row("du cold", "files/s", true, false, tree::du),
    row("grep cold", "files/s", true, false, tree::grep),
    row("grep warm", "files/s", false, false, tree::grep),
    row("rm -rf", "files/s", false, false, tree::rm),
    row("sequential write 1 MiB", "MiB/s", false, false, data::seq_write),
    row("sequential read 1 MiB cold", "MiB/s", true, false, data::seq_read),
    row("random read 4 KiB cold", "ops/s", true, false, data::rand_read),
    row("random write 4 KiB + fsync", "ops/s", false, false, data::rand_write),
    row("random read 4 KiB direct", "ops/s", false, false, data::rand_read_direct),
    row("random write 4 KiB direct", "ops/s", false, false, data::rand_write_direct),
    row("4 KiB append, fsync every write", "ops/s", false, false, data::fsync_each),
    row("4 KiB append, fsync every 32", "ops/s", false, false, data::fsync_32),
    row("SQLite WAL transactions", "tx/s", false, false, data::sqlite_wal),
    row("SQLite DELETE transactions", "tx/s", false, false, data::sqlite_delete),
];
