//! Runs the steps of a [`Flow`].
use super::Tally;
use super::fs::{File, Fs};
use super::job::{Flow, Step};
use anyhow::{Context, Result};
use segno_testkit::Rng;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Directory of the files.
const DIR: &str = "files";
/// Bytes of one write or read.
const PIECE: usize = 1 << 20;

/// Existing unused files, and missing files.
pub struct FileSet {
    there: Mutex<Vec<u32>>,
    missing: Mutex<Vec<u32>>,
}

/// Creates the files. The directory is synced first, as an fsync of a file in a new directory writes a checkpoint.
pub fn prepare(fs: &dyn Fs, flow: &Flow, threads: usize, seed: u64) -> Result<FileSet> {
    fs.mkdir(DIR)?;
    for thread in 0..threads {
        if flow.steps.contains(&Step::Log) {
            fs.create(&log_name(thread))?;
        }
    }
    fs.sync()?;
    let present = (f64::from(flow.files) * flow.present) as u32;
    let (mut rng, data) = (Rng::for_thread(seed, usize::MAX - 1), vec![0x5a; PIECE]);
    for n in 0..present {
        let file = fs.create(&name_of(n))?;
        fill(&*file, around_mean(&mut rng, flow.size), &data)?;
    }
    Ok(FileSet {
        there: Mutex::new((0..present).collect()),
        missing: Mutex::new((present..flow.files).collect()),
    })
}

fn name_of(n: u32) -> String {
    format!("{DIR}/{n:08}")
}

fn log_name(thread: usize) -> String {
    format!("{DIR}/log{thread}")
}

fn fill(file: &dyn File, size: u64, data: &[u8]) -> Result<()> {
    append_at(file, 0, size, data)
}

fn append_at(file: &dyn File, mut at: u64, size: u64, data: &[u8]) -> Result<()> {
    let end = at + size;
    while at < end {
        let n = (end - at).min(data.len() as u64);
        file.write(at, data.get(..n as usize).unwrap_or(data))?;
        at += n;
    }
    Ok(())
}

/// Removes a random number from a list.
fn take(list: &Mutex<Vec<u32>>, rng: &mut Rng) -> Option<u32> {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    let n = list.len() as u64;
    (n > 0).then(|| list.swap_remove(rng.below(n) as usize))
}

fn put(list: &Mutex<Vec<u32>>, n: u32) {
    list.lock().unwrap_or_else(PoisonError::into_inner).push(n);
}

/// Work of one thread until the time is over; at least one pass over the steps.
pub fn thread(
    fs: &dyn Fs,
    flow: &Flow,
    set: &FileSet,
    thread: usize,
    seed: u64,
    until: Instant,
    tally: &Tally,
) -> Result<()> {
    let (mut rng, data, mut buffer) = (Rng::for_thread(seed, thread), vec![0xa5; PIECE], vec![0; PIECE]);
    let mut open: Option<(u32, Box<dyn File>)> = None;
    let mut logged = 0;
    loop {
        for step in &flow.steps {
            let file = open.as_ref().map(|(_, f)| &**f);
            match step {
                // With as many threads as files none may be left.
                Step::Delete => {
                    let Some(n) = take(&set.there, &mut rng) else { continue };
                    fs.unlink(&name_of(n))?;
                    put(&set.missing, n);
                }
                Step::Create | Step::Open => {
                    let create = *step == Step::Create;
                    let list = if create { &set.missing } else { &set.there };
                    let Some(n) = take(list, &mut rng) else { continue };
                    let name = name_of(n);
                    open = Some((n, if create { fs.create(&name)? } else { fs.open(&name)? }));
                }
                Step::Close => {
                    let Some((n, file)) = open.take() else { continue };
                    drop(file);
                    put(&set.there, n);
                }
                Step::Stat => {
                    let Some(n) = take(&set.there, &mut rng) else { continue };
                    fs.stat(&name_of(n))?;
                    put(&set.there, n);
                }
                Step::Log => {
                    let file = fs.open(&log_name(thread))?;
                    let size = around_mean(&mut rng, flow.append);
                    append_at(&*file, logged, size, &data)?;
                    logged += size;
                    tally.wrote(size);
                }
                Step::Fill | Step::Append | Step::Fsync | Step::Read => {
                    let Some(file) = file else { continue };
                    on_open_file(*step, file, flow, &mut rng, &data, &mut buffer, tally)?;
                }
            }
            tally.op();
        }
        if Instant::now() >= until {
            return Ok(());
        }
    }
}

/// A number between half and one and a half of a mean.
fn around_mean(rng: &mut Rng, mean: u64) -> u64 {
    mean / 2 + rng.below(mean.max(1)) + 1
}

fn on_open_file(
    step: Step,
    file: &dyn File,
    flow: &Flow,
    rng: &mut Rng,
    data: &[u8],
    buffer: &mut [u8],
    tally: &Tally,
) -> Result<()> {
    match step {
        Step::Fsync => return tally.fsync(|| file.fsync()),
        Step::Read => {
            let mut at = 0;
            loop {
                match file.read(at, buffer)? {
                    0 => return Ok(()),
                    n => at += n as u64,
                }
            }
        }
        Step::Append => {
            let size = around_mean(rng, flow.append);
            append_at(file, file.size().context("size of a file to append to")?, size, data)?;
            tally.wrote(size);
        }
        _ => {
            let size = around_mean(rng, flow.size);
            fill(file, size, data)?;
            tally.wrote(size);
        }
    }
    Ok(())
}
