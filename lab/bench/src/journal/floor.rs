//! Lower bound of an fsync: small writes with flushes on the bare device.
use super::row::LatencyUs;
use crate::Histogram;
use crate::place::Place;
use anyhow::{Result, anyhow};
use segno_device::BlockDevice;
use segno_format::{BLOCK_SIZE, Block};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Size and rate of concurrent writes, as in the engine's writeback of old data.
const PIECE: u64 = 64;
const OTHERS_PER_S: f64 = 250e6;
/// Blocks that are overwritten repeatedly.
const REACH: u64 = 256;

/// A number of calls with a number of writes and flushes each. Overwrites the device.
pub fn measure(place: &Place, calls: usize, flushes: usize, under_load: bool) -> Result<LatencyUs> {
    let device = place.device()?;
    let block = Block([0xa5; BLOCK_SIZE]);
    device.write(0, &[&block; REACH as usize])?;
    device.flush()?;
    let (times, done) = (Histogram::default(), AtomicBool::new(!under_load));
    thread::scope(|s| {
        let others = s.spawn(|| write_until(&*device, &done));
        for call in 0..calls as u64 {
            let begun = Instant::now();
            for part in 0..flushes as u64 {
                device.write((call * 2 + part) % REACH, &[&block])?;
                device.flush()?;
            }
            times.record(begun.elapsed().as_nanos() as u64);
        }
        done.store(true, Ordering::Relaxed);
        others.join().map_err(|_| anyhow!("the other writer panicked"))?
    })?;
    Ok(LatencyUs::of(&times.recorded()))
}

fn write_until(device: &dyn BlockDevice, done: &AtomicBool) -> Result<()> {
    let block = Block([0x5a; BLOCK_SIZE]);
    let piece = [&block; PIECE as usize];
    let places = (device.block_count().saturating_sub(REACH) / PIECE).max(1);
    let (begun, mut written) = (Instant::now(), 0);
    while !done.load(Ordering::Relaxed) {
        device.write_behind(REACH + written % places * PIECE, &piece)?;
        written += 1;
        let due = (written * PIECE) as f64 * BLOCK_SIZE as f64 / OTHERS_PER_S;
        thread::sleep(Duration::from_secs_f64(due).saturating_sub(begun.elapsed()));
    }
    Ok(())
}
