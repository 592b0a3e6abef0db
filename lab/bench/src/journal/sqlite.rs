//! SQLite in its journal modes, through mounts in both modes.
use super::mode::Mode;
use super::row::Extra;
use crate::budget::Budget;
use crate::mounts::{FileSystem, Site};
use crate::page::{Figure, Table, short};
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::{Sample, alternate};
use crate::work::job::Job;
use crate::work::sqlite;
use anyhow::{Context, Result};
use std::collections::BTreeMap;

const BYTES: u64 = 1 << 30;

/// Rows and a table of transactions a second.
pub fn measure(rounds: usize, report: &mut Report, progress: &mut Progress) -> Result<()> {
    let job = Job::named("sqlite")?.sqlite.context("the job sqlite")?;
    let found = alternate(&Mode::BOTH, rounds, &Budget::unlimited(), |mode, round| {
        progress.step(&format!("SQLite through a mount: {}, round {}", mode.name(), round + 1));
        let site = Site::new(None, BYTES, mode.words())?;
        site.format(FileSystem::Segno)?;
        site.mount(FileSystem::Segno)?;
        let done = sqlite::run(&site.dir(), &job);
        site.unmount(FileSystem::Segno)?;
        done
    })?;
    let mut table: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (mode, rounds) in &found {
        for journal in &job.journals {
            let rates: Vec<f64> =
                rounds.iter().flatten().filter(|(name, _)| name == journal).map(|(_, rate)| *rate).collect();
            let rate = Sample::of(&rates);
            let seconds = f64::from(job.transactions) / rate.median;
            let extra = [("transactions_per_s", rate.median)];
            report.push(&Extra::new(format!("sqlite {journal}"), *mode, seconds, &extra))?;
            let cells = [short(rate.median), format!("± {} %", short(rate.spread_percent()))];
            table.entry(journal.clone()).or_default().extend(cells);
        }
    }
    report.figures.push(Figure::Table(Table {
        title: "SQLite through a mount, transactions a second".into(),
        head: ["its journal", "checkpoint", "", "journal", ""].map(str::to_owned).into(),
        rows: table.into_iter().map(|(name, cells)| [vec![name], cells].concat()).collect(),
        note: "One row inserted in each, synchronous=FULL.".into(),
    }));
    Ok(())
}
