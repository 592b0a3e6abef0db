//! Throughput of file data through the engine to a device in memory: MiB/s of elapsed time, and of processor
//! time, which other work on the machine disturbs less.
//!
//! `cargo run --release -p segno-engine --example seqwrite [MiB]`
#![allow(clippy::unwrap_used)]
use segno_device::MemDevice;
use segno_engine::{MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_mkfs::{Member, MkfsOptions};
use std::sync::Arc;
use std::time::Instant;

const STEP: usize = 1 << 20;
const BLOCK: usize = 4096;

fn main() {
    let mib: u64 = std::env::args().nth(1).map_or(512, |a| a.parse().unwrap());
    let dev = Arc::new(MemDevice::new(mib * 3 * 256 + 32768));
    let member = Member { device: dev.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &MkfsOptions::default()).unwrap();
    let volume = Volume::mount(dev, MountOptions { background: false, ..MountOptions::default() }).unwrap();
    let ino = create(&volume, "file");

    // Every block differs, and none is zeros: the device does not store those.
    let data: Vec<u8> = (0..STEP as u32).map(|i| (i / 7 + i % 251) as u8 | 1).collect();
    let sequential = |name| {
        timed(name, mib, || {
            for i in 0..mib {
                assert_eq!(volume.write(ino, i * STEP as u64, &data).unwrap(), STEP);
            }
            volume.sync().unwrap();
        });
    };
    sequential("sequential write, new file");
    sequential("sequential write over it");
    let mut buf = vec![0; STEP];
    timed("sequential read", mib, || {
        for i in 0..mib {
            assert_eq!(volume.read(ino, i * STEP as u64, &mut buf).unwrap(), STEP);
        }
    });
    let places: Vec<u64> =
        (1..=mib * 64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (mib * 256) * BLOCK as u64).collect();
    timed("random write of 4 KiB", mib / 4, || {
        for &at in &places {
            volume.write(ino, at, &data[..BLOCK]).unwrap();
        }
        volume.sync().unwrap();
    });
    timed("random read of 4 KiB", mib / 4, || {
        for &at in &places {
            volume.read(ino, at, &mut buf[..BLOCK]).unwrap();
        }
    });
    timed("appends of 100 bytes", mib / 16, || {
        let log = create(&volume, "log");
        for at in (0..mib / 16 * STEP as u64).step_by(100) {
            volume.write(log, at, &data[..100]).unwrap();
        }
        volume.sync().unwrap();
    });
    volume.unmount().unwrap();
}

fn create(volume: &Volume, name: &str) -> Ino {
    volume.mknod(volume.root(), name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap().ino
}

fn timed(name: &str, mib: u64, f: impl FnOnce()) {
    let (begun, busy) = (Instant::now(), processor_seconds());
    f();
    let (clock, busy) = (begun.elapsed().as_secs_f64(), processor_seconds() - busy);
    println!("{name:28} {:8.0} {:8.0}", mib as f64 / clock, mib as f64 / busy);
}

/// Time that this thread has run, from the first number of schedstat(5).
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
