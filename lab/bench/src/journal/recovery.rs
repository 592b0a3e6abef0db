//! Recovery time by size of the journal, and of the same files by replay and by roll-forward. In memory, so that only CPU time
//! counts.
use super::Scale;
use super::fill::{self, fill};
use super::mode::Mode;
use super::row::Extra;
use crate::machine::cpu_seconds;
use crate::page::{Figure, Table, short};
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::Sample;
use anyhow::{Result, ensure};
use segno_device::{MemDevice, Snapshot};
use segno_engine::Volume;
use std::sync::Arc;
use std::time::Instant;

const MIB: u64 = 1 << 20;
/// Mounts of the same crashed volume.
const REPETITIONS: usize = 5;

/// Seconds to recover the same files.
pub struct Recovered {
    pub files: usize,
    roll_forward: Sample,
    replay: Sample,
}

impl Recovered {
    /// How many times faster replay is.
    pub fn faster(&self) -> f64 {
        self.roll_forward.median / self.replay.median
    }

    fn line(&self) -> Vec<String> {
        let times = [self.roll_forward, self.replay]
            .into_iter()
            .flat_map(|s| [short(s.median * 1000.0), short(s.spread_percent())]);
        std::iter::once(self.files.to_string()).chain(times).chain([short(self.faster())]).collect()
    }
}

/// A volume after recovery, and what it took.
struct Mounted {
    volume: Arc<Volume>,
    seconds: f64,
    cpu: f64,
}

impl Mounted {
    fn of(crashed: &Snapshot, mode: Mode) -> Result<Self> {
        let device = Arc::new(MemDevice::from_snapshot(crashed));
        let (begun, cpu) = (Instant::now(), cpu_seconds());
        let volume = Volume::mount(device, mode.options(1 << 30))?;
        Ok(Self { volume, seconds: begun.elapsed().as_secs_f64(), cpu: cpu_seconds() - cpu })
    }

    fn replayed(&self) -> u64 {
        self.volume.report().into_iter().find(|(n, _)| *n == "journal_replayed").map_or(0, |(_, v)| v)
    }
}

/// Fills journals, drops the volumes without unmounting, and mounts them again.
pub fn by_log(scale: &Scale, report: &mut Report, progress: &mut Progress) -> Result<()> {
    let mut rows = Vec::new();
    for &mib in &scale.recovery_mib {
        progress.step(&format!("recovery of a log of {mib} MiB"));
        let crashed = fill(scale, mib * MIB)?;
        let mounted = Mounted::of(&crashed.device, Mode::Journal)?;
        let (replayed, Mounted { volume, seconds, cpu }) = (mounted.replayed(), mounted);
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

/// Files that were synced one by one after the last checkpoint: their journal is replayed, or their nodes are rolled forward.
pub fn by_files(scale: &Scale, report: &mut Report, progress: &mut Progress) -> Result<Vec<Recovered>> {
    let mut found = Vec::new();
    for &files in &scale.synced_files {
        let mut times = |mode: Mode| {
            progress.step(&format!("recovery of {files} files: {}", mode.name()));
            let seconds = recover(scale, mode, files)?;
            let extra = [
                ("files", files as f64),
                ("repetitions", seconds.n as f64),
                ("spread_percent", seconds.spread_percent()),
            ];
            report.push(&Extra::new(format!("recovery of {files} files"), mode, seconds.median, &extra))?;
            Ok::<Sample, anyhow::Error>(seconds)
        };
        found.push(Recovered { files, roll_forward: times(Mode::Minute)?, replay: times(Mode::Journal)? });
    }
    report.figures.push(Figure::Table(Table {
        title: "Recovery of synced files".into(),
        head: ["files", "roll-forward ms", "± %", "replay ms", "± %", "times faster"].map(str::to_owned).into(),
        rows: found.iter().map(Recovered::line).collect(),
        note: format!(
            "New files of 4 KiB, each synced by itself after the last checkpoint, without and with a journal. The whole mount \
             in memory with its closing checkpoint; medians of {REPETITIONS} mounts of the same volume, ± half the range."
        ),
    }));
    Ok(found)
}

/// Mounts a crashed volume several times; it must have all files each time.
fn recover(scale: &Scale, mode: Mode, files: usize) -> Result<Sample> {
    let crashed = fill::synced(scale, mode, files)?;
    let seconds = (0..REPETITIONS).map(|_| {
        let mounted = Mounted::of(&crashed, mode)?;
        let there = fill::count_synced(&mounted.volume, files);
        ensure!(there == files, "{there} of {files} synced files were recovered");
        let replayed = mounted.replayed();
        ensure!((replayed > 0) == (mode == Mode::Journal), "{replayed} parts of a journal were replayed");
        Ok(mounted.seconds)
    });
    Ok(Sample::of(&seconds.collect::<Result<Vec<f64>>>()?))
}
