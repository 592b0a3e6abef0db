//! Raw performance of the device, for comparison with that of the file system.
use anyhow::Result;
use segno_device::BlockDevice;
use segno_engine::stat::Histogram;
use segno_format::{BLOCK_SIZE, Block};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Blocks of one sequential write: 1 MiB.
const LARGE: u64 = 256;
const MIB: f64 = 1048576.0;

/// Bandwidths and latencies of one device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Raw {
    /// Sequential 1 MiB writes and one flush.
    pub seq_write_mib_per_s: f64,
    /// Random 4 KiB writes, one at a time, and one flush.
    pub rand_write_4k_mib_per_s: f64,
    /// Median of a 4 KiB overwrite with a flush.
    pub write_flush_us: f64,
    /// Copying 1 MiB in memory: the upper bound of buffered I/O.
    pub memcpy_mib_per_s: f64,
}

/// Measures for about `time`. Overwrites the device.
pub fn measure(device: &dyn BlockDevice, time: Duration) -> Result<Raw> {
    let part = time / 4;
    let large = device.block_count().min(LARGE);
    // Not all zero, as a device may treat zeros specially.
    let block = Block([0xa5; BLOCK_SIZE]);
    let refs = vec![&block; large as usize];
    let places = (device.block_count() / large.max(1)).max(1);

    let begun = Instant::now();
    let mut written = 0;
    while begun.elapsed() < part {
        device.write(written % places * large, &refs)?;
        written += 1;
    }
    device.flush()?;
    let seq_write_mib_per_s = mib(written * large) / begun.elapsed().as_secs_f64();

    // Within the range written above, as an image file would have to allocate other blocks first.
    let reach = (written.min(places) * large).max(1);
    let (begun, mut n, mut x) = (Instant::now(), 0, 0x9e37_79b9_7f4a_7c15_u64);
    while begun.elapsed() < part {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        device.write((x >> 20) % reach, &[&block])?;
        n += 1;
    }
    device.flush()?;
    let rand_write_4k_mib_per_s = mib(n) / begun.elapsed().as_secs_f64();

    let (begun, times) = (Instant::now(), Histogram::default());
    let mut at = 0;
    while begun.elapsed() < part {
        let one = Instant::now();
        device.write(at % reach, &[&block])?;
        device.flush()?;
        times.record(one.elapsed().as_nanos() as u64);
        at += 1;
    }
    let write_flush_us = times.recorded().quantile(0.5) as f64 / 1000.0;
    Ok(Raw { seq_write_mib_per_s, rand_write_4k_mib_per_s, write_flush_us, memcpy_mib_per_s: memcpy(part) })
}

fn memcpy(time: Duration) -> f64 {
    let from = vec![0x5a_u8; 1 << 20];
    // Larger than processor caches, like a page cache.
    let mut to = vec![0_u8; 64 << 20];
    let (begun, mut copied) = (Instant::now(), 0);
    while begun.elapsed() < time.min(Duration::from_millis(300)) {
        for piece in to.chunks_mut(from.len()) {
            piece.copy_from_slice(&from);
            copied += 1;
        }
        std::hint::black_box(&to);
    }
    f64::from(copied) / begun.elapsed().as_secs_f64()
}

fn mib(blocks: u64) -> f64 {
    blocks as f64 * BLOCK_SIZE as f64 / MIB
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::MemDevice;
    use segno_testkit::CountDevice;

    #[test]
    fn every_figure_stands_for_work_that_was_done() {
        let device = CountDevice::new(MemDevice::new(1000));
        let raw = measure(&device, Duration::from_millis(40)).unwrap();
        let c = device.counts();
        assert!(c.flushes > 2 && c.writes > c.flushes && c.blocks_written >= c.writes + 255);
        for figure in
            [raw.seq_write_mib_per_s, raw.rand_write_4k_mib_per_s, raw.write_flush_us, raw.memcpy_mib_per_s]
        {
            assert!(figure > 0.0 && figure.is_finite(), "{raw:?}");
        }
    }
}
