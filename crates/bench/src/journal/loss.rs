//! Data loss when the process is killed: a volume in memory with the product's commit intervals is copied at random times, and
//! every copy is mounted.
use super::Scale;
use super::arm::{Mode, mkfs};
use super::row::Extra;
use crate::page::{Figure, Table, short};
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::Sample;
use anyhow::{Context, Result, anyhow, ensure};
use segno_device::{MemDevice, Snapshot};
use segno_engine::{Background, MountOptions, Owner, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use segno_testkit::Rng;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between new files.
const PACE: Duration = Duration::from_micros(500);
/// Files in one directory.
const WIDTH: usize = 2000;

/// Result of one kill.
struct Kill {
    left: Snapshot,
    at: Instant,
    /// Files that were visible before the kill.
    done: usize,
}

type Done = Mutex<Vec<Instant>>;

pub fn measure(scale: &Scale, seed: u64, report: &mut Report, progress: &mut Progress) -> Result<()> {
    let mut rows = Vec::new();
    for mode in Mode::BOTH {
        progress.step(&format!("{} times killed in {} mode", scale.kills, mode.name()));
        let (kills, done) = live(scale, mode, seed)?;
        let (mut ms, mut data_ms, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for kill in &kills {
            let (kept, filled) = survivors(kill, mode)?;
            files.push((kill.done - kept) as f64);
            // Age of the oldest lost file.
            let lost = |from: usize| {
                let oldest = done.get(from).filter(|_| from < kill.done);
                oldest.map_or(0.0, |&made| kill.at.duration_since(made).as_secs_f64() * 1000.0)
            };
            ms.push(lost(kept));
            data_ms.push(lost(filled));
        }
        let (ms, data_ms, files) = (Sample::of(&ms), Sample::of(&data_ms), Sample::of(&files));
        rows.push(vec![
            mode.name().to_owned(),
            kills.len().to_string(),
            short(files.median),
            short(files.max),
            short(ms.median),
            short(ms.max),
            short(data_ms.median),
            short(data_ms.max),
        ]);
        let extra = [
            ("lost_ms_median", ms.median),
            ("lost_ms_max", ms.max),
            ("lost_data_ms_median", data_ms.median),
            ("lost_data_ms_max", data_ms.max),
            ("lost_files_median", files.median),
        ];
        report.push(&Extra::new("lost at a kill".into(), mode, 0.0, &extra))?;
    }
    report.figures.push(Figure::Table(Table {
        title: "What a killed server loses".into(),
        head: ["mode", "kills", "files, median", "most", "ms of changes, median", "most", "ms of data", "most"]
            .map(str::to_owned)
            .into(),
        rows,
        note: "Files of 4 KiB come one after the other, unsynced, with the intervals of the product: a checkpoint every 5 \
               seconds; an epoch every second and data every 5. What is there is always all up to some file; of data, up to \
               the first file that is not as long as it was."
            .into(),
    }));
    Ok(())
}

/// A run with all its kills, and the creation time of each file.
fn live(scale: &Scale, mode: Mode, seed: u64) -> Result<(Vec<Kill>, Vec<Instant>)> {
    let device = Arc::new(MemDevice::new((1 << 30) / BLOCK_SIZE as u64));
    let member = segno_mkfs::Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &mkfs(scale))?;
    let defaults = MountOptions::default();
    let options = MountOptions { commit_interval: defaults.commit_interval, ..mode.options(256 << 20) };
    let volume = Volume::mount(device.clone(), options)?;
    let background = Background::start(&volume)?;
    let (done, stop) = (Done::default(), AtomicBool::new(false));
    let mut rng = Rng::for_thread(seed, 1);
    let kills = thread::scope(|s| {
        let writer = s.spawn(|| write(&volume, &done, &stop));
        let kills: Vec<Kill> = (0..scale.kills)
            .map(|_| {
                thread::sleep(Duration::from_millis(rng.below(scale.kill_pause_ms)));
                let count = done.lock().unwrap_or_else(PoisonError::into_inner).len();
                Kill { at: Instant::now(), left: device.snapshot(), done: count }
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| anyhow!("the writer panicked"))??;
        anyhow::Ok(kills)
    })?;
    drop(background);
    volume.unmount()?;
    Ok((kills, done.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

fn name(n: usize) -> (String, String) {
    (format!("d{}", n / WIDTH), format!("f{n}"))
}

fn write(volume: &Volume, done: &Done, stop: &AtomicBool) -> Result<()> {
    let mut dir = Ino::ROOT;
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (parent, file) = name(n);
        if n % WIDTH == 0 {
            dir = volume.mkdir(Ino::ROOT, parent.as_bytes(), 0o755, Owner::default())?.ino;
        }
        let ino = volume.mknod(dir, file.as_bytes(), 0o100_644, (0, 0), Owner::default())?.ino;
        volume.write(ino, 0, &[n as u8; BLOCK_SIZE])?;
        done.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        thread::sleep(PACE);
    }
    Ok(())
}

/// How many files there are after a kill, and how many up to the first whose data is not; the names must be those of one
/// moment.
fn survivors(kill: &Kill, mode: Mode) -> Result<(usize, usize)> {
    let device = Arc::new(MemDevice::from_snapshot(&kill.left));
    let volume = Volume::mount(device, mode.options(64 << 20)).context("mounting after a kill")?;
    let size = |n: usize| {
        let (parent, file) = name(n);
        let dir = volume.lookup(Ino::ROOT, parent.as_bytes()).ok()?;
        Some(volume.lookup(dir.ino, file.as_bytes()).ok()?.size)
    };
    let kept = (0..kill.done).take_while(|&n| size(n).is_some()).count();
    ensure!((kept..kill.done).all(|n| size(n).is_none()), "file {kept} is lost and a later one is not");
    let filled = (0..kept).take_while(|&n| size(n) == Some(BLOCK_SIZE as u64)).count();
    volume.unmount()?;
    Ok((kept, filled))
}
