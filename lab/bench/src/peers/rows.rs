//! The timed workloads, one row each. Every row has its own directory and returns the number of units of work.
use super::{data, files, personality, steps, threads, tree};
use crate::work::job::MetaStep;
use Group::{Data, Databases, Files, Names, Tree};
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
    /// Duration of a personality.
    pub seconds: f64,
}

impl Scale {
    pub const FULL: Self = Self {
        files: 10_000,
        big_mib: 1024,
        random_ops: 50_000,
        fsyncs: 2_000,
        transactions: 1_000,
        seconds: 10.0,
    };
    pub const QUICK: Self = Self {
        files: 2_000,
        big_mib: 128,
        random_ops: 10_000,
        fsyncs: 1_000,
        transactions: 250,
        seconds: 2.0,
    };
    #[cfg(test)]
    pub const TINY: Self =
        Self { files: 20, big_mib: 1, random_ops: 10, fsyncs: 20, transactions: 2, seconds: 0.02 };
}

/// Units of work, and the time they took.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub units: f64,
    pub seconds: f64,
}

type Alone = fn(&Path, Scale) -> Result<usize>;

enum Work {
    /// By one thread.
    Alone(Alone),
    /// By a number of threads that share the amount of work.
    Threads(fn(&Path, Scale, usize) -> Result<usize>),
    /// A step of the job `metadata`, likewise.
    Step(MetaStep),
    /// A built-in job of this name, by a number of threads for a fixed time.
    Personality(&'static str),
}

/// Rows of one group use what earlier rows of it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Group {
    Names,
    Files,
    Tree,
    Data,
    Databases,
    /// Several threads on shared and on separate files and directories.
    Threads,
    /// Mixes like those of filebench.
    Personalities,
}

pub struct Row {
    pub name: &'static str,
    pub unit: &'static str,
    pub group: Group,
    /// Remounted before with empty kernel caches.
    pub cold: bool,
    /// Works on names and attributes rather than on contents.
    pub metadata: bool,
    /// Untimed preparation.
    before: Option<Alone>,
    work: Work,
}

impl Row {
    /// Whether it runs once for each number of threads.
    pub fn is_threaded(&self) -> bool {
        !matches!(self.work, Work::Alone(_))
    }

    /// Prepares the row.
    pub fn prepare(&self, dir: &Path, scale: Scale) -> Result<()> {
        let made = self.before.map(|make| make(dir, scale)).transpose();
        made.map(drop).with_context(|| format!("what row '{}' needs", self.name))
    }

    pub fn run(&self, dir: &Path, scale: Scale, threads: usize) -> Result<Done> {
        let begun = Instant::now();
        let units = match self.work {
            Work::Alone(work) => work(dir, scale),
            Work::Threads(work) => work(dir, scale, threads),
            Work::Personality(job) => return personality::run(dir, job, scale, threads),
            Work::Step(step) => return steps::run(dir, step, scale, threads),
        };
        let units = units.with_context(|| format!("row '{}'", self.name))?;
        Ok(Done { units: units as f64, seconds: begun.elapsed().as_secs_f64() })
    }
}

const fn row(group: Group, name: &'static str, unit: &'static str, work: Work) -> Row {
    let metadata = matches!(group, Group::Names);
    Row { name, unit, group, cold: false, metadata, before: None, work }
}

const fn one(group: Group, name: &'static str, unit: &'static str, work: Alone) -> Row {
    row(group, name, unit, Work::Alone(work))
}

const fn several(
    name: &'static str,
    unit: &'static str,
    work: fn(&Path, Scale, usize) -> Result<usize>,
) -> Row {
    row(Group::Threads, name, unit, Work::Threads(work))
}

const fn step(name: &'static str, step: MetaStep) -> Row {
    metadata(row(Group::Threads, name, "files/s", Work::Step(step)))
}

const fn mix(name: &'static str) -> Row {
    row(Group::Personalities, name, "ops/s", Work::Personality(name))
}

const fn cold(row: Row) -> Row {
    Row { cold: true, ..row }
}

const fn metadata(row: Row) -> Row {
    Row { metadata: true, ..row }
}

const fn after(before: Alone, row: Row) -> Row {
    Row { before: Some(before), ..row }
}

/// In the order they run: later ones use what earlier ones made.
pub const ROWS: &[Row] = &[
    one(Names, "create empty", "files/s", files::create_empty),
    cold(one(Names, "list cold", "names/s", files::list_all)),
    one(Names, "list warm", "names/s", files::list_all),
    cold(one(Names, "stat cold", "files/s", files::stat_all)),
    one(Names, "stat warm", "files/s", files::stat_all),
    one(Names, "unlink empty", "files/s", files::unlink_empty),
    after(files::create_empty, cold(one(Names, "unlink cold", "files/s", files::unlink_empty))),
    metadata(one(Files, "create 4 KiB", "files/s", files::create_small)),
    cold(one(Files, "read 4 KiB files cold", "files/s", files::read_small)),
    one(Files, "copy 4 KiB", "files/s", files::copy_small),
    metadata(one(Files, "unlink 4 KiB", "files/s", files::unlink_small)),
    one(Files, "varmail", "loops/s", files::varmail),
    one(Tree, "untar", "files/s", tree::untar),
    cold(one(Tree, "du cold", "files/s", tree::du)),
    cold(one(Tree, "grep cold", "files/s", tree::grep)),
    one(Tree, "grep warm", "files/s", tree::grep),
    one(Tree, "rm -rf", "files/s", tree::rm),
    one(Data, "sequential write 1 MiB", "MiB/s", data::seq_write),
    cold(one(Data, "sequential read 1 MiB cold", "MiB/s", data::seq_read)),
    one(Data, "sequential read 1 MiB warm", "MiB/s", data::seq_read),
    cold(one(Data, "random read 4 KiB cold", "ops/s", data::rand_read)),
    one(Data, "random write 4 KiB + fsync", "ops/s", data::rand_write),
    one(Data, "random write 4 KiB, no fsync", "ops/s", data::rand_write_no_fsync),
    one(Data, "random read 4 KiB direct", "ops/s", data::rand_read_direct),
    one(Data, "random write 4 KiB direct", "ops/s", data::rand_write_direct),
    one(Data, "4 KiB append, fsync every write", "ops/s", data::fsync_each),
    one(Data, "4 KiB append, fsync every 32", "ops/s", data::fsync_32),
    one(Databases, "SQLite WAL transactions", "tx/s", data::sqlite_wal),
    one(Databases, "SQLite DELETE transactions", "tx/s", data::sqlite_delete),
    after(
        threads::make_file,
        several("random write 4 KiB, one file, fsync at the end", "ops/s", threads::write_at_end),
    ),
    after(
        threads::make_file,
        several("random write 4 KiB, one file, fsync every 32", "ops/s", threads::write_32),
    ),
    after(
        threads::make_file,
        several("random write 4 KiB, one file, fsync each", "ops/s", threads::write_each),
    ),
    after(threads::make_file, cold(several("random read 4 KiB cold, one file", "ops/s", threads::read))),
    several("sequential write, own files", "MiB/s", threads::seq_write),
    metadata(several("create 4 KiB, one directory", "files/s", threads::create_shared)),
    step("mkdir, own directories", MetaStep::Mkdir),
    step("rmdir, own directories", MetaStep::Rmdir),
    step("create empty, own directories", MetaStep::Create),
    step("unlink empty, own directories", MetaStep::Unlink),
    step("create 4 KiB, own directories", MetaStep::Create4k),
    step("copy 4 KiB, own directories", MetaStep::Copy4k),
    step("unlink 4 KiB, own directories", MetaStep::Unlink4k),
    several("varmail, own directories", "loops/s", threads::varmail),
    mix("varmail"),
    mix("fileserver"),
    mix("webserver"),
    mix("webproxy"),
    mix("oltp"),
];
