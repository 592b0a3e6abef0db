//! Runs a [`Data`] job.
use super::Tally;
use super::fs::{File, Fs};
use super::job::Data;
use anyhow::Result;
use segno_testkit::Rng;
use std::time::Instant;

fn name_of(data: &Data, thread: usize) -> String {
    if data.shared { "data".to_owned() } else { format!("data{thread}") }
}

/// Writes the files completely, so that later writes are overwrites, and syncs them.
pub fn prepare(fs: &dyn Fs, data: &Data, threads: usize) -> Result<()> {
    let piece = vec![0x5a; 1 << 20];
    for thread in 0..if data.shared { 1 } else { threads } {
        let file = fs.create(&name_of(data, thread))?;
        for at in (0..data.size).step_by(piece.len()) {
            let n = (data.size - at).min(piece.len() as u64) as usize;
            file.write(at, piece.get(..n).unwrap_or(&piece))?;
        }
    }
    fs.sync()
}

/// Work of one thread until the time is over; at least one block.
pub fn thread(
    fs: &dyn Fs,
    data: &Data,
    thread: usize,
    seed: u64,
    until: Instant,
    tally: &Tally,
) -> Result<()> {
    let file: Box<dyn File> = fs.open(&name_of(data, thread))?;
    let (mut rng, blocks) = (Rng::for_thread(seed, thread), data.size / data.block as u64);
    let (from, mut to) = (vec![0xa5; data.block], vec![0; data.block]);
    let (mut next, mut written) = (0, 0);
    loop {
        let block = if data.random { rng.below(blocks) } else { next % blocks };
        next += 1;
        let at = block * data.block as u64;
        if rng.below(100) < data.read_percent {
            file.read(at, &mut to)?;
            tally.op();
        } else {
            file.write(at, &from)?;
            tally.wrote(data.block as u64);
            tally.op();
            written += 1;
            if data.fsync_every > 0 && written % data.fsync_every == 0 {
                tally.fsync(|| file.fsync())?;
            }
        }
        if Instant::now() >= until {
            return Ok(());
        }
    }
}
