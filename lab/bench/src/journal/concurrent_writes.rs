//! Cost of fsync while other files have dirty data, with and without concurrent writeback of that data.
use super::Scale;
use super::arm::format;
use super::floor;
use super::mode::Mode;
use super::row::{BlockedUs, JournalRow, LatencyUs};
use crate::Histogram;
use crate::place::Place;
use crate::progress::Progress;
use anyhow::{Result, anyhow};
use segno_engine::lab::Probe;
use segno_engine::{Background, Owner, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

const MIB: usize = 1 << 20;
/// Cache size for each dirty byte: with less, memory pressure would write it back.
const CACHE: usize = 8;

/// Number of files with dirty data, so that none is large enough to be written early.
const FILES: u64 = 8;

/// State of the other files' data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Rest,
    /// It is in one file, which is large enough to be written early.
    AreLarge,
    AreWritten,
}

impl Others {
    fn suffix(self) -> &'static str {
        match self {
            Self::Rest => "",
            Self::AreLarge => " of one file",
            Self::AreWritten => " that is being written back",
        }
    }
    fn files(self) -> u64 {
        if self == Self::AreLarge { 1 } else { FILES }
    }
}

/// One row for each mode, amount, and what becomes of it.
pub fn measure(place: &Place, scale: &Scale, progress: &mut Progress) -> Result<Vec<JournalRow>> {
    let mut rows = Vec::new();
    for &mib in &scale.beside_mib {
        let cases: &[Others] =
            if mib == 0 { &[Others::Rest] } else { &[Others::Rest, Others::AreLarge, Others::AreWritten] };
        for &others in cases {
            for mode in Mode::BOTH {
                let name = name(mib, others);
                progress.step(&format!("{name}: {}", mode.name()));
                rows.push(one(place, scale, mode, mib, others)?);
            }
        }
    }
    Ok(rows)
}

fn name(mib: u64, others: Others) -> String {
    format!("fsync beside {mib} MiB of dirty data{}", others.suffix())
}

/// Notes the time of the bare device for the writes and flushes of an fsync.
pub fn note_floor(place: &Place, scale: &Scale, rows: &[JournalRow]) -> Result<Option<String>> {
    let under_load = |r: &&JournalRow| r.mode == Mode::Journal && r.workload.starts_with("fsync beside");
    let Some(row) = rows.iter().find(under_load) else { return Ok(None) };
    let flushes = (row.flushes / row.ops).round() as usize;
    let [alone, others] =
        [false, true].map(|others| floor::measure(place, scale.beside_fsyncs, flushes, others));
    let (alone, others) = (alone?, others?);
    Ok(Some(format!(
        "The device alone takes {:.0} µs (p99 {:.0}) for {flushes} writes of 4 KiB with a flush each, as an fsync makes them, \
         and {:.0} µs (p99 {:.0}) while another thread writes 250 MB/s.",
        alone.p50, alone.p99, others.p50, others.p99
    )))
}

fn one(place: &Place, scale: &Scale, mode: Mode, mib: u64, others: Others) -> Result<JournalRow> {
    let (device, _) = format(place, scale)?;
    let cache_bytes = scale.cache_bytes.max(CACHE * MIB * mib as usize);
    let volume = Volume::mount(device.clone(), mode.options(cache_bytes))?;
    let background = Background::start(&volume)?;
    let make = |name: &[u8]| volume.mknod(Ino::ROOT, name, 0o100_644, (0, 0), Owner::default());
    let mine = make(b"mine")?.ino;
    let files = (0..others.files()).map(|n| Ok(make(format!("other{n}").as_bytes())?.ino));
    let files: Vec<Ino> = files.collect::<Result<_>>()?;
    volume.write(mine, 0, &vec![1; MIB])?;
    Probe(&volume).checkpoint()?;
    let (counts, stats) = (device.counts(), volume.stats());
    let (logged, begun) = (stats.journal_bytes.load(Ordering::Relaxed), Instant::now());
    let piece = vec![7; MIB];
    let share = mib.div_ceil(others.files());
    let fill =
        |file: &Ino| (0..share).try_for_each(|at| volume.write(*file, at * MIB as u64, &piece).map(drop));
    let dirty = || files.iter().try_for_each(fill);
    let mut caller = Caller { volume: &volume, file: mine, times: Histogram::default(), calls: 0 };
    dirty()?;
    match others {
        Others::Rest | Others::AreLarge => caller.fsync_while(scale.beside_fsyncs, || true)?,
        Others::AreWritten => {
            while caller.calls < scale.beside_fsyncs {
                caller.fsync_during_writeback(scale.beside_fsyncs, mode)?;
                dirty()?;
            }
        }
    }
    let (seconds, io) = (begun.elapsed().as_secs_f64(), device.counts() - counts);
    let (ops, times) = (caller.calls as f64, caller.times);
    let log_bytes = (stats.journal_bytes.load(Ordering::Relaxed) - logged) as f64;
    let row = JournalRow {
        workload: name(mib, others),
        mode,
        threads: 1,
        rounds: 1,
        seconds,
        ops,
        ops_per_s: ops / seconds,
        ops_spread_percent: 0.0,
        latency_us: LatencyUs::of(&times.recorded()),
        latency: times.recorded(),
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

/// Syncs a file of its own repeatedly.
struct Caller<'v> {
    volume: &'v Arc<Volume>,
    file: Ino,
    times: Histogram,
    calls: usize,
}

impl Caller<'_> {
    /// Syncs while a condition holds, up to a number of calls.
    fn fsync_while(&mut self, most: usize, goes_on: impl Fn() -> bool) -> Result<()> {
        while self.calls < most && goes_on() {
            let (at, byte) = ((self.calls % 256 * BLOCK_SIZE) as u64, self.calls as u8);
            self.volume.write(self.file, at, &[byte; BLOCK_SIZE])?;
            let call = Instant::now();
            self.volume.fsync(self.file)?;
            self.times.record(call.elapsed().as_nanos() as u64);
            self.calls += 1;
        }
        Ok(())
    }

    /// Calls fsync while background writeback writes old data.
    fn fsync_during_writeback(&mut self, most: usize, mode: Mode) -> Result<()> {
        let volume = self.volume.clone();
        thread::scope(|s| {
            let writes = s.spawn(move || match mode {
                Mode::Minute | Mode::Second => Probe(&volume).tick(),
                Mode::Journal => Probe(&volume).write_aged(),
            });
            self.fsync_while(most, || !writes.is_finished())?;
            writes.join().map_err(|_| anyhow!("the background panicked"))?.map_err(Into::into)
        })
    }
}
