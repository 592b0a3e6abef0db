//! Concurrent fsyncs: each result is durable, whatever the other threads do.
use super::Rig;
use crate::common::assert_clean;
use segno_device::{MemDevice, Snapshot};
use segno_engine::lab::Probe;
use segno_engine::{Owner, RenameMode, Volume};
use segno_format::Ino;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const THREADS: u8 = 4;
const ROUNDS: u32 = 60;
const FILE: u16 = 0o100_644;

/// Acknowledged files: name and first byte, from which the length follows.
type Promised = Vec<(String, u8)>;

fn content(byte: u8) -> Vec<u8> {
    vec![byte; 3000 + usize::from(byte) * 40]
}

/// Creates files under a temporary name, renames and syncs them.
fn work(v: &Volume, dir: Ino, me: u8, promised: &Mutex<Promised>) {
    for round in 0..ROUNDS {
        let byte = (round as u8).wrapping_mul(3) ^ me;
        let name = format!("t{me}-{round}");
        let tmp = format!("tmp{me}");
        let ino = v.mknod(dir, tmp.as_bytes(), FILE, (0, 0), Owner::default()).unwrap().ino;
        v.write(ino, 0, &content(byte)).unwrap();
        v.rename(dir, tmp.as_bytes(), dir, name.as_bytes(), RenameMode::Replace, Owner::default()).unwrap();
        if round % 3 == 0 {
            v.unlink(dir, format!("t{me}-{}", round.wrapping_sub(1)).as_bytes()).ok();
        }
        if round % 3 != 2 {
            v.fsync(ino, false).unwrap();
            // The next round removes one file in three.
            if round % 3 == 1 {
                promised.lock().unwrap().push((name, byte));
            }
        }
    }
}

#[test]
fn data_synced_by_any_thread_survives() {
    let rig = Rig::new();
    let dir = rig.v.mkdir(Ino::ROOT, b"dir", 0o755, Owner::default()).unwrap().ino;
    let promised = Arc::new(Mutex::new(Promised::new()));
    let done = Arc::new(AtomicBool::new(false));
    let mut images: Vec<(Promised, Snapshot)> = Vec::new();
    thread::scope(|s| {
        let workers: Vec<_> = (0..THREADS)
            .map(|me| {
                let (v, promised) = (rig.v.clone(), promised.clone());
                s.spawn(move || work(&v, dir, me, &promised))
            })
            .collect();
        s.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                Probe(&rig.v).tick().unwrap();
                Probe(&rig.v).checkpoint().unwrap();
            }
        });
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            // Acknowledged before the image was taken.
            let known = promised.lock().unwrap().clone();
            images.push((known, rig.dev.snapshot()));
            thread::sleep(std::time::Duration::from_millis(5));
        }
        done.store(true, Ordering::Relaxed);
    });
    images.push((promised.lock().unwrap().clone(), rig.dev.snapshot()));
    let step = images.len().div_ceil(12);
    for (known, image) in images.iter().rev().step_by(step) {
        let dev = Arc::new(MemDevice::from_snapshot(image));
        let v = Volume::mount(dev.clone(), rig.opts.clone()).unwrap();
        for (name, byte) in known {
            let attr = v.lookup(dir, name.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
            let mut found = vec![0; attr.size as usize];
            v.read(attr.ino, 0, &mut found).unwrap();
            assert!(found == content(*byte), "{name} has other bytes");
        }
        v.unmount().unwrap();
        assert_clean(&*dev);
    }
    assert!(images.iter().any(|(known, _)| !known.is_empty()));
}
