//! A program that never calls fsync gets an error if its data does not fit, or was lost for another reason.
use super::{TRANSPORTS, cached, quiet_volume};
use crate::bdi::DIRTY_MAX;
use crate::tests::Mount;
use segno_engine::Volume;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::thread;

const BLOCKS: u64 = 64 * 256;
const MIB: u64 = 1 << 20;

fn free_bytes(volume: &Volume) -> u64 {
    volume.statfs().bavail * 4096
}

/// Writes without fsync until a write fails; returns the number of bytes that were taken, and the error.
fn fill(file: &mut File, limit: u64) -> (u64, Option<i32>) {
    let chunk = vec![1; MIB as usize];
    let mut taken = 0;
    while taken < limit {
        match file.write(&chunk) {
            Ok(n) => taken += n as u64,
            Err(e) => return (taken, e.raw_os_error()),
        }
    }
    (taken, None)
}

/// Runs a test on mounts of a small volume, tuned as `segno mount` does.
fn each_small(test: impl Fn(&Mount)) {
    for choice in TRANSPORTS {
        let (_device, volume) = quiet_volume(BLOCKS);
        let Some(mount) = cached(volume, choice, &[]) else { continue };
        mount.tune(true, BLOCKS * 4096);
        test(&mount);
    }
}

fn errno<T>(done: io::Result<T>) -> Option<i32> {
    done.err().and_then(|e| e.raw_os_error())
}

/// The bound is the free space and the dirty pages that the kernel permits.
#[test]
fn a_full_volume_stops_a_writer_that_never_syncs() {
    each_small(|mount| {
        let other = mount.path().join("other");
        fs::write(&other, "other").unwrap();
        let mut open = File::options().read(true).write(true).open(&other).unwrap();
        let bound = free_bytes(&mount.server.volume) + DIRTY_MAX;
        let mut full = File::create(mount.path().join("full")).unwrap();
        let (taken, error) = fill(&mut full, 8 * bound);
        assert_eq!(error, Some(libc::ENOSPC));
        assert!(taken <= bound, "{taken} of {bound}");

        // Another file neither gets the error nor lost anything.
        open.write_all_at(b"OTHER", 0).unwrap();
        open.sync_all().unwrap();
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "OTHER");
        // fsync reports it too, and truncation ends it.
        assert_eq!(errno(full.sync_all()), Some(libc::ENOSPC));
        full.set_len(0).unwrap();
        full.write_all_at(b"fits", 0).unwrap();
        full.sync_all().unwrap();
        full.write_all_at(b"FITS", 0).unwrap();
        full.sync_all().unwrap();
    });
}

/// Another program that looks at the file makes the kernel fetch its attributes, but not trust them.
#[test]
fn a_writer_on_a_full_volume_stops_although_others_stat_the_file() {
    each_small(|mount| {
        let path = mount.path().join("full");
        let mut full = File::create(&path).unwrap();
        let bound = free_bytes(&mount.server.volume) + DIRTY_MAX;
        let done = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(fs::metadata(&path).unwrap().is_file());
                }
            });
            let (taken, error) = fill(&mut full, 8 * bound);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(error, Some(libc::ENOSPC));
            assert!(taken <= bound, "{taken} of {bound}");
        });
    });
}

/// A failed writeback is reported to one write; the next one is tried again.
#[test]
fn a_file_whose_writeback_failed_can_be_written_again() {
    each_small(|mount| {
        let rest = mount.path().join("rest");
        fs::write(&rest, vec![2; 4 << 20]).unwrap();
        let mut full = File::create(mount.path().join("full")).unwrap();
        assert_eq!(fill(&mut full, 8 * (BLOCKS * 4096 + DIRTY_MAX)).1, Some(libc::ENOSPC));
        // Dirty pages that were left fail here, if there are any, which one more write reports.
        assert_eq!(errno(full.sync_all()), Some(libc::ENOSPC));
        fs::remove_file(&rest).unwrap();
        mount.server.volume.sync().unwrap();
        let again = full.write_all_at(b"new", 0);
        assert!([None, Some(libc::ENOSPC)].contains(&errno(again)));
        full.write_all_at(b"new", 0).unwrap();
        full.sync_all().unwrap();
    });
}
