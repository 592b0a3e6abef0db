//! Does an fsync get slower when other files have much dirty data?
use super::Scale;
use super::arm::{Mode, format};
use super::row::{BlockedUs, JournalRow, LatencyUs};
use crate::Histogram;
use crate::place::Place;
use crate::progress::Progress;
use anyhow::Result;
use segno_engine::{Background, Owner, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use std::sync::atomic::Ordering;
use std::time::Instant;

const MIB: usize = 1 << 20;
/// fsyncs after which the data of others is dirty again.
const EACH: usize = 4;

/// One row for each mode and amount.
pub fn measure(place: &Place, scale: &Scale, progress: &mut Progress) -> Result<Vec<JournalRow>> {
    let mut rows = Vec::new();
    for &mib in &scale.beside_mib {
        for mode in Mode::BOTH {
            progress.step(&format!("fsync beside {mib} MiB of dirty data: {}", mode.name()));
            rows.push(one(place, scale, mode, mib)?);
        }
    }
    Ok(rows)
}

fn one(place: &Place, scale: &Scale, mode: Mode, mib: u64) -> Result<JournalRow> {
    let (device, _) = format(place, scale)?;
    let volume = Volume::mount(device.clone(), mode.options(scale.cache_bytes))?;
    let background = Background::start(&volume)?;
    let make = |name: &[u8]| volume.mknod(Ino::ROOT, name, 0o100_644, (0, 0), Owner::default());
    let (mine, other) = (make(b"mine")?.ino, make(b"other")?.ino);
    volume.write(mine, 0, &vec![1; MIB])?;
    volume.checkpoint_now()?;
    let (counts, stats) = (device.counts(), volume.stats());
    let (logged, begun, times) =
        (stats.journal_bytes.load(Ordering::Relaxed), Instant::now(), Histogram::default());
    let piece = vec![7; MIB];
    for n in 0..scale.beside_fsyncs {
        if n % EACH == 0 {
            (0..mib).try_for_each(|at| volume.write(other, at * MIB as u64, &piece).map(drop))?;
        }
        volume.write(mine, (n % 256 * BLOCK_SIZE) as u64, &[n as u8; BLOCK_SIZE])?;
        let call = Instant::now();
        volume.fsync(mine, false)?;
        times.record(call.elapsed().as_nanos() as u64);
    }
    let (seconds, io) = (begun.elapsed().as_secs_f64(), device.counts() - counts);
    let ops = scale.beside_fsyncs as f64;
    let log_bytes = (stats.journal_bytes.load(Ordering::Relaxed) - logged) as f64;
    let row = JournalRow {
        workload: format!("fsync beside {mib} MiB of dirty data"),
        mode,
        threads: 1,
        rounds: 1,
        seconds,
        ops,
        ops_per_s: ops / seconds,
        ops_spread_percent: 0.0,
        latency_us: LatencyUs::of(&times.recorded()),
        applying_us: None,
        blocked_us: BlockedUs::default(),
        checkpoints: 0.0,
        commits: stats.journal_commits.load(Ordering::Relaxed) as f64,
        bytes_written: (io.blocks_written * BLOCK_SIZE as u64) as f64,
        flushes: io.flushes as f64,
        log_bytes_per_op: (mode == Mode::Journal).then_some(log_bytes / ops),
        phases_ms: None,
    };
    drop(background);
    volume.unmount()?;
    Ok(row)
}
