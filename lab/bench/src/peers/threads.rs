//! Several threads on one file or directory, or each on its own. They share the amount of work.
use super::data::{blocks_in_random_order, write_whole};
use super::files::{self, BLOCK};
use super::rows::Scale;
use anyhow::{Result, bail};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The file that all threads use.
fn shared(dir: &Path) -> PathBuf {
    dir.join("shared")
}

/// Written once for all rows that overwrite or read it.
pub fn make_file(dir: &Path, scale: Scale) -> Result<usize> {
    if shared(dir).exists() { Ok(0) } else { write_whole(&shared(dir), scale.big_mib) }
}

/// Runs the work on each thread, which gets its number; returns the sum of their units.
fn on_each(threads: usize, work: impl Fn(usize) -> Result<usize> + Sync) -> Result<usize> {
    let work = &work;
    std::thread::scope(|s| {
        let all: Vec<_> = (0..threads).map(|t| s.spawn(move || work(t))).collect();
        all.into_iter().map(|h| h.join().unwrap_or_else(|_| bail!("a thread panicked"))).sum()
    })
}

/// Syncs after so many writes, and at the end.
fn random_writes(dir: &Path, scale: Scale, threads: usize, writes: usize, every: usize) -> Result<usize> {
    let own = writes.div_ceil(threads);
    on_each(threads, |t| {
        let f = File::options().write(true).open(shared(dir))?;
        for (i, b) in (1..=own).zip(blocks_in_random_order(scale, t as u64 + 1)) {
            f.write_all_at(&BLOCK, b * 4096)?;
            if i % every == 0 || i == own {
                f.sync_data()?;
            }
        }
        Ok(own)
    })
}

pub fn write_at_end(dir: &Path, scale: Scale, threads: usize) -> Result<usize> {
    random_writes(dir, scale, threads, scale.random_ops, usize::MAX)
}

pub fn write_32(dir: &Path, scale: Scale, threads: usize) -> Result<usize> {
    random_writes(dir, scale, threads, scale.fsyncs * 8, 32)
}

pub fn write_each(dir: &Path, scale: Scale, threads: usize) -> Result<usize> {
    random_writes(dir, scale, threads, scale.fsyncs, 1)
}

pub fn read(dir: &Path, scale: Scale, threads: usize) -> Result<usize> {
    let own = scale.random_ops.div_ceil(threads);
    on_each(threads, |t| {
        let (f, mut buf) = (File::open(shared(dir))?, BLOCK);
        for b in blocks_in_random_order(scale, t as u64 + 1).take(own) {
            f.read_exact_at(&mut buf, b * 4096)?;
        }
        Ok(own)
    })
}

pub fn seq_write(dir: &Path, scale: Scale, threads: usize) -> Result<usize> {
    on_each(threads, |t| write_whole(&dir.join(format!("own{t}")), scale.big_mib.div_ceil(threads)))
}

/// Names are unique among the threads.
pub fn create_shared(dir: &Path, scale: Scale, threads: usize) -> Result<usize> {
    let dir = dir.join(format!("together{threads}"));
    let own = scale.files.div_ceil(threads);
    fs::create_dir_all(&dir)?;
    on_each(threads, |t| {
        for i in 0..own {
            fs::write(dir.join(format!("file-{t}-{i:06}")), BLOCK)?;
        }
        Ok(own)
    })
}

pub fn varmail(dir: &Path, scale: Scale, threads: usize) -> Result<usize> {
    let scale = Scale { fsyncs: scale.fsyncs.div_ceil(threads), ..scale };
    on_each(threads, |t| files::varmail(&dir.join(format!("mail{threads}/{t}")), scale))
}
