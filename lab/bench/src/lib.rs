//! `segno bench`: repeatable experiments.
//!
//! An experiment is a module with `Args` (which hold [`options::Common`]), `ROWS` (the JSON schema of its rows) and `run`,
//! which returns a [`report::Report`]; `Experiment` lists them. This crate does the rest:
//!
//! * [`place`]: fresh volumes on a named image or device, on a scratch image, or in memory; [`raw`]: raw performance of the device
//! * [`sample`]: medians with spread, alternating rounds; [`Histogram`]: latencies; [`budget`]: `--quick`
//! * [`progress`]: progress on standard error
//! * [`schema`]: checks every report against the schemas of its envelope and rows
//! * [`ceiling`]: a file system with the least that FUSE needs, to compare segno with
//! * [`mounts`]: segno and other file systems, each on the same image in turn
//! * [`work`]: workloads described in files, on a volume in this process or on any mount
//! * [`page`], [`folder`]: the HTML page and the result folder
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

pub mod budget;
pub mod ceiling;
pub mod device;
pub mod folder;
pub mod fsync;
pub mod gc;
pub mod journal;
pub mod machine;
pub mod mounts;
pub mod object;
pub mod options;
pub mod page;
pub mod peers;
pub mod place;
pub mod progress;
pub mod raw;
pub mod report;
pub mod run;
pub mod sample;
pub mod schema;
pub mod work;
pub mod writeback;

pub use segno_engine::stat::{Histogram, Recorded};

use anyhow::Result;
use options::Common;
use report::Report;
use serde_json::Value;
use std::io::{self, Write, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, clap::Subcommand)]
enum Experiment {
    /// Raw performance of the device
    Device(device::Args),
    /// Lookup of dirty nodes by fsync: per-inode lists and the kernel's global search
    Fsync(fsync::Args),
    /// Write amplification of cleaning, by policy
    Gc(gc::Args),
    /// The mount compared with other file systems: the same work on each, in alternating rounds
    Peers(peers::Args),
    /// The metadata journal compared with plain checkpoints
    Journal(journal::Args),
    /// A volume on an object store in memory with latency and failures, compared with the store itself
    Object(object::Args),
    /// A workload from a description
    Run(run::Args),
    /// Writeback by one context and by several, with shared and with exclusive streams
    Writeback(writeback::Args),
}

impl Experiment {
    /// Runs; returns the report, the schema of its rows, and the output options.
    fn run(&self) -> Result<(Report, &'static str, &Common)> {
        Ok(match self {
            Self::Device(args) => (device::run(args)?, device::ROWS, &args.common),
            Self::Fsync(args) => (fsync::run(args)?, fsync::ROWS, &args.common),
            Self::Gc(args) => (gc::run(args)?, gc::ROWS, &args.common),
            Self::Peers(args) => (peers::run(args)?, peers::ROWS, &args.common),
            Self::Journal(args) => (journal::run(args)?, journal::ROWS, &args.common),
            Self::Object(args) => (object::run(args)?, object::ROWS, &args.common),
            Self::Run(args) => (run::run(args)?, run::ROWS, &args.common),
            Self::Writeback(args) => (writeback::run(args)?, writeback::ROWS, &args.common),
        })
    }
}

/// Runs an experiment and delivers its report; `print_json` prints it as the program prints its documents. `commit` is that of the program.
pub fn run(
    args: &Args,
    commit: Option<&str>,
    print_json: impl FnOnce(&Value) -> io::Result<()>,
) -> Result<()> {
    let (mut report, rows, common) = args.experiment.run()?;
    report.machine.commit = commit.map(str::to_owned);
    let document = report.to_json(rows)?;
    if let Some(dir) = &common.output {
        folder::write(dir, &report, &document)?;
        eprintln!("segno: the page is {}", dir.join("report.html").display());
    }
    if common.json {
        print_json(&document)?;
    } else {
        write!(stdout(), "{}", page::text(&report))?;
    }
    Ok(())
}
