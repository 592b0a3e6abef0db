//! Concurrent writers, truncation, flushes and checkpoints.
use super::{BLOCK, Rig};
use crate::common::{fresh, mount, quiet};
use segno_device::MemDevice;
use segno_engine::{FallocMode, Owner, Volume};
use segno_mkfs::MkfsOptions;
use segno_testkit::{Call, PauseDevice, Rng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A block stamped with its index.
fn stamped(block: u64, round: u64) -> Vec<u8> {
    let stamp = [block.to_le_bytes(), round.to_le_bytes()].concat();
    stamp.repeat(BLOCK as usize / stamp.len())
}

#[test]
fn blocks_are_never_torn_or_misplaced() {
    let mut rig = Rig::new(128, &MkfsOptions::default());
    let ino = rig.create("f");
    let blocks = 3000;
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let (rig, stop) = (&rig, &stop);
        let writers: Vec<_> = (0..3u64)
            .map(|t| {
                s.spawn(move || {
                    let mut rng = Rng::new(0xAB_CD01 + t);
                    for round in 0..600 {
                        let block = rng.below(blocks);
                        rig.write(ino, block * BLOCK, &stamped(block, round));
                        if rng.below(40) == 0 {
                            rig.truncate(ino, rng.below(blocks) * BLOCK);
                        }
                        if rng.below(60) == 0 {
                            let (at, len) = (rng.below(blocks) * BLOCK, 50 * BLOCK);
                            rig.volume.fallocate(ino, FallocMode::PunchHole, at, len).unwrap();
                        }
                        let seen = rig.read(ino, block * BLOCK, BLOCK as usize);
                        assert_whole(block, &seen);
                    }
                })
            })
            .collect();
        let syncer = s.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                rig.volume.sync().unwrap();
            }
        });
        let joined: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        stop.store(true, Ordering::Relaxed);
        syncer.join().unwrap();
        joined.into_iter().for_each(|j| j.unwrap());
    });
    rig.remount();
    for block in 0..blocks {
        assert_whole(block, &rig.read(ino, block * BLOCK, BLOCK as usize));
    }
}

/// All zeros (a hole or truncated), or the block's own stamp throughout.
fn assert_whole(block: u64, seen: &[u8]) {
    if seen.iter().all(|&b| b == 0) {
        return;
    }
    assert_eq!(seen.len() as u64, BLOCK, "block {block} is cut");
    let round = u64::from_le_bytes(seen[8..16].try_into().unwrap());
    assert!(seen == stamped(block, round), "block {block} is mixed up");
}

#[test]
fn a_sync_waits_for_pages_in_flight() {
    let inner = fresh(128, &MkfsOptions::default());
    let ((reached, at_write), (release, go_on)) = (channel(), channel());
    let hold = Mutex::new((reached, go_on));
    let slow = PauseDevice::before_each(inner.clone(), move |call| {
        if matches!(call, Call::Write(_, [first, ..]) if first.0 == [0xAB; BLOCK as usize]) {
            let (reached, go_on) = &*hold.lock().unwrap();
            reached.send(()).unwrap();
            go_on.recv().unwrap();
        }
    });
    let volume = Volume::mount(Arc::new(slow), quiet()).unwrap();
    let ino = volume.mknod(volume.root(), b"f", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    volume.write(ino, 0, &[0xAB; 8192]).unwrap();
    let after = std::thread::scope(|s| {
        let first = s.spawn(|| volume.sync().unwrap());
        at_write.recv().unwrap();
        let (done, is_done) = channel();
        let (volume, inner) = (&volume, &inner);
        s.spawn(move || {
            volume.sync().unwrap();
            done.send(inner.snapshot()).unwrap();
        });
        // Only an early return is an error; the duration is not checked.
        let early = is_done.recv_timeout(Duration::from_millis(100));
        release.send(()).unwrap();
        first.join().unwrap();
        early.or_else(|_| is_done.recv()).unwrap()
    });
    let volume = mount(&Arc::new(MemDevice::from_snapshot(&after)));
    let mut seen = [0; 8192];
    volume.read(ino, 0, &mut seen).unwrap();
    assert!(seen == [0xAB; 8192], "a sync returned before the data was written");
}
