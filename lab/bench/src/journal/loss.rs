//! Loss at a power cut: a volume in memory creates files at a fixed rate, and what cuts at drawn moments leave of it is mounted.
//!
//! The clock is simulated: no thread of the engine runs, and each second the schedule of the mode makes durable what is due. A
//! commit or checkpoint takes no time on that clock, so no cut falls into one. Of the writes that no flush has made durable none
//! survives.
use super::Scale;
use super::arm::mkfs;
use super::mode::Mode;
use super::row::Extra;
use crate::page::{Figure, Table, short};
use crate::progress::Progress;
use crate::report::Report;
use anyhow::{Context, Result, ensure};
use segno_device::MemDevice;
use segno_engine::{Clock, Owner, Time, Volume, lab};
use segno_format::{BLOCK_SIZE, Ino};
use segno_testkit::{CrashChoice, CrashLog, Event, Kept, RecordDevice, Rng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Duration of the workload.
const SECONDS: u64 = 100;
/// Files in one directory.
const WIDTH: usize = 2000;

/// Seconds since mount.
#[derive(Default)]
struct Simulated(AtomicU64);

impl Clock for Simulated {
    fn now(&self) -> Time {
        Time { secs: self.0.load(Ordering::Relaxed).cast_signed(), nsec: 0 }
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

/// What all cuts of one mode lost.
pub struct Lost {
    pub mode: Mode,
    /// Of the files with their content, and of their names.
    pub files: Loss,
    pub names: Loss,
}

/// Sums over cuts.
#[derive(Clone, Copy, Default)]
pub struct Loss {
    created: usize,
    recovered: usize,
    cuts: usize,
    seconds: f64,
    pub longest: f64,
}

impl Loss {
    fn add(&mut self, created: usize, recovered: usize, seconds: f64) {
        self.created += created;
        self.recovered += recovered;
        self.cuts += 1;
        self.seconds += seconds;
        self.longest = self.longest.max(seconds);
    }

    /// Of all files that had been created at the cuts.
    pub fn share_percent(&self) -> f64 {
        self.recovered as f64 / self.created.max(1) as f64 * 100.0
    }

    /// Seconds of work lost, on average over cuts.
    pub fn mean(&self) -> f64 {
        self.seconds / self.cuts.max(1) as f64
    }
}

pub fn measure(scale: &Scale, seed: u64, report: &mut Report, progress: &mut Progress) -> Result<Vec<Lost>> {
    let mut rng = Rng::for_thread(seed, 1);
    let mut cuts: Vec<f64> = (0..scale.cuts).map(|_| rng.unit() * SECONDS as f64).collect();
    cuts.sort_by(f64::total_cmp);
    let mut found = Vec::new();
    for mode in Mode::ALL {
        progress.step(&format!("{} power cuts: {}", cuts.len(), mode.name()));
        let lost = lose(scale, mode, &cuts)?;
        let extra = [
            ("cuts", cuts.len() as f64),
            ("recovered_percent", lost.files.share_percent()),
            ("recovered_names_percent", lost.names.share_percent()),
            ("lost_s_mean", lost.files.mean()),
            ("lost_s_max", lost.files.longest),
            ("lost_names_s_mean", lost.names.mean()),
            ("lost_names_s_max", lost.names.longest),
        ];
        report.push(&Extra::new("lost at a power cut".into(), mode, 0.0, &extra))?;
        found.push(lost);
    }
    report.figures.push(table(scale, seed, &found));
    Ok(found)
}

fn table(scale: &Scale, seed: u64, found: &[Lost]) -> Figure {
    let row = |l: &Lost| {
        let cells = [l.names, l.files].into_iter().flat_map(|loss| {
            [format!("{:.1}", loss.share_percent()), short(loss.mean()), short(loss.longest)]
        });
        std::iter::once(l.mode.name().to_owned()).chain(cells).collect()
    };
    Figure::Table(Table {
        title: "What power cuts lose".into(),
        head: ["mode", "names recovered, %", "s lost, mean", "max", "with content, %", "s lost, mean", "max"]
            .map(str::to_owned)
            .into(),
        rows: found.iter().map(row).collect(),
        note: format!(
            "{} cuts in each mode, drawn uniformly from {SECONDS} seconds (seed {seed}), while {} files of 4 KiB are created a \
             second and none is synced. Share of all files that had been created at the cuts; seconds are the age of the oldest \
             file that is lost. In memory on a simulated clock, on which a commit or checkpoint takes no time; only flushed writes \
             survive. With the journal metadata is committed every second and data written every 5, so a name is durable before \
             its content.",
            scale.cuts, scale.files_per_s
        ),
    })
}

/// When a file is created.
fn created(n: usize, scale: &Scale) -> f64 {
    (n + 1) as f64 / scale.files_per_s as f64
}

fn lose(scale: &Scale, mode: Mode, cuts: &[f64]) -> Result<Lost> {
    let log = live(scale, mode, cuts)?;
    let at = log.events().iter().enumerate().filter(|(_, e)| matches!(e, Event::Mark(_))).map(|(at, _)| at);
    let mut lost = Lost { mode, files: Loss::default(), names: Loss::default() };
    for (event, &cut) in at.zip(cuts) {
        // With the mark itself, as a FUA write at the end would count as not returned.
        let device = log.image(&CrashChoice { cut: event + 1, kept: Kept::Nothing, torn: None });
        let count = (0..).take_while(|&n| created(n, scale) <= cut).count();
        let (names, files) = survivors(device, mode, count)?;
        // Age of the oldest lost file.
        let age = |is_there: &[bool]| {
            is_there.iter().position(|there| !there).map_or(0.0, |n| cut - created(n, scale))
        };
        let number = |is_there: &[bool]| is_there.iter().filter(|there| **there).count();
        lost.names.add(count, number(&names), age(&names));
        lost.files.add(count, number(&files), age(&files));
    }
    Ok(lost)
}

/// The whole workload, with a mark in the log for each cut.
fn live(scale: &Scale, mode: Mode, cuts: &[f64]) -> Result<CrashLog> {
    let device = Arc::new(MemDevice::new((1 << 30) / BLOCK_SIZE as u64));
    let member = segno_mkfs::Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &mkfs(scale))?;
    let base = device.snapshot();
    let (device, clock) = (Arc::new(RecordDevice::new(device)), Arc::<Simulated>::default());
    let volume = lab::mount(device.clone(), mode.options(256 << 20), clock.clone())?;
    let (mut cuts, mut dir) = (cuts.iter().peekable(), Ino::ROOT);
    let rate = scale.files_per_s;
    for n in 0..rate * SECONDS as usize {
        while cuts.next_if(|cut| **cut < created(n, scale)).is_some() {
            device.mark("cut");
        }
        clock.0.store(created(n, scale) as u64, Ordering::Relaxed);
        let (parent, file) = name(n);
        if n % WIDTH == 0 {
            dir = volume.mkdir(Ino::ROOT, parent.as_bytes(), 0o755, Owner::default())?.ino;
        }
        let ino = volume.mknod(dir, file.as_bytes(), 0o100_644, (0, 0), Owner::default())?.ino;
        volume.write(ino, 0, &content(n))?;
        if (n + 1) % rate == 0 {
            let second = ((n + 1) / rate) as u64;
            mode.write_data(&volume, second - 1, second)?;
            mode.commit(&volume, second - 1, second)?;
        }
    }
    Ok(CrashLog::new(base, device.log())?)
}

fn name(n: usize) -> (String, String) {
    (format!("d{}", n / WIDTH), format!("f{n}"))
}

fn content(n: usize) -> [u8; BLOCK_SIZE] {
    [n as u8; BLOCK_SIZE]
}

/// Of each file, whether it is there, and whether it is with its content; the names must be those of one moment.
fn survivors(device: MemDevice, mode: Mode, count: usize) -> Result<(Vec<bool>, Vec<bool>)> {
    let volume =
        Volume::mount(Arc::new(device), mode.options(64 << 20)).context("mounting after a power cut")?;
    let find = |n: usize| {
        let (parent, file) = name(n);
        let dir = volume.lookup(Ino::ROOT, parent.as_bytes()).ok()?;
        Some(volume.lookup(dir.ino, file.as_bytes()).ok()?.ino)
    };
    let (mut names, mut files) = (Vec::new(), Vec::new());
    for n in 0..count {
        let (found, mut read) = (find(n), [0; BLOCK_SIZE]);
        names.push(found.is_some());
        let filled =
            found.is_some_and(|ino| volume.read(ino, 0, &mut read).is_ok_and(|got| got == BLOCK_SIZE));
        files.push(filled && read == content(n));
    }
    ensure!(names.is_sorted_by(|a, b| a >= b), "a file is lost and a later one is not");
    volume.unmount()?;
    Ok((names, files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    /// A cut loses what was created since the last commit or checkpoint, neither less nor more.
    #[test]
    fn a_cut_loses_the_seconds_since_the_last_commit() {
        let scale = Scale { cuts: 0, files_per_s: 2, ..super::super::tests::scale() };
        // Files at 0.5, 1.0, ... seconds; the cuts follow 3, 83 and 145 of them.
        let cuts = [1.7, 41.7, 72.9];
        for (mode, names, files) in [
            (Mode::Minute, [0, 0, 120], [0, 0, 120]),
            (Mode::Second, [2, 82, 144], [2, 82, 144]),
            // Data is written every 5 seconds, and committed in the same step.
            (Mode::Journal, [2, 82, 144], [0, 80, 140]),
        ] {
            let lost = lose(&scale, mode, &cuts).unwrap();
            let sum = |kept: [usize; 3]| kept.iter().sum::<usize>();
            assert_eq!((lost.names.created, lost.names.cuts), (3 + 83 + 145, 3));
            assert_eq!(
                (lost.names.recovered, lost.files.recovered),
                (sum(names), sum(files)),
                "{}",
                mode.name()
            );
            let oldest = created(names[1], &scale);
            assert!(lost.names.longest >= cuts[1] - oldest, "{} {}", mode.name(), lost.names.longest);
        }
    }

    #[test]
    fn the_same_seed_loses_the_same() {
        let scale = Scale { cuts: 3, files_per_s: 1, ..super::super::tests::scale() };
        let once = || {
            let mut report = Report::new("journal", 7, &scale, Machine::here(None)).unwrap();
            measure(&scale, 7, &mut report, &mut Progress::new(0)).unwrap();
            report.results
        };
        assert_eq!(once(), once());
    }
}
