//! Recovery time by size of the journal.
use super::Scale;
use super::arm::Mode;
use super::fill::fill;
use super::row::Extra;
use crate::machine::cpu_seconds;
use crate::page::{Figure, Table, short};
use crate::progress::Progress;
use crate::report::Report;
use anyhow::{Result, ensure};
use segno_engine::Volume;
use std::time::Instant;

const MIB: u64 = 1 << 20;

/// Fills journals, drops the volumes without unmounting, and mounts them again; in memory, so that only CPU time counts.
pub fn measure(scale: &Scale, report: &mut Report, progress: &mut Progress) -> Result<()> {
    let mut rows = Vec::new();
    for &mib in &scale.recovery_mib {
        progress.step(&format!("recovery of a log of {mib} MiB"));
        let crashed = fill(scale, mib * MIB)?;
        let (begun, cpu) = (Instant::now(), cpu_seconds());
        let volume = Volume::mount(crashed.device.clone(), Mode::Journal.options(1 << 30))?;
        let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let replayed =
            volume.report().into_iter().find(|(n, _)| *n == "journal_replayed").map_or(0, |(_, v)| v);
        ensure!(replayed > 0, "nothing was replayed of a log of {mib} MiB");
        volume.unmount()?;
        let log_mib = crashed.log_bytes as f64 / MIB as f64;
        rows.push(vec![
            short(log_mib),
            crashed.changes.to_string(),
            replayed.to_string(),
            short(seconds * 1000.0),
            short(cpu * 1000.0),
        ]);
        let extra = [("log_mib", log_mib), ("changes", crashed.changes as f64), ("cpu_seconds", cpu)];
        report.push(&Extra::new(format!("recovery of {mib} MiB"), Mode::Journal, seconds, &extra))?;
    }
    report.figures.push(Figure::Table(Table {
        title: "Recovery by the fill of the log".into(),
        head: ["log MiB", "changes", "inodes and epochs replayed", "ms", "CPU ms"].map(str::to_owned).into(),
        rows,
        note: "Renames, changes of modes and overwritten blocks of the same files, a commit after each round; in memory. \
               The closing checkpoint is included."
            .into(),
    }));
    Ok(())
}
