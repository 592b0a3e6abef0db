//! Full volumes and failing devices.
use super::{BLOCK, Rig, pattern};
use crate::common::{assert_clean, fresh, mount, quiet};
use segno_device::MemDevice;
use segno_engine::{Error, FallocMode, Owner, Volume};
use segno_mkfs::MkfsOptions;
use segno_testkit::{Fault, FaultCall, FaultDevice, FaultError};
use std::sync::Arc;

#[test]
fn a_write_to_a_full_volume_is_short() {
    let mut rig = Rig::new(64, &MkfsOptions::default());
    let ino = rig.create("f");
    let data = pattern(7, 1 << 20);
    let mut written = 0;
    let error = loop {
        match rig.volume.write(ino, written, &data) {
            Ok(n) if n == data.len() => written += n as u64,
            // Whole blocks until the end.
            Ok(n) => {
                assert_eq!(n as u64 % BLOCK, 0);
                written += n as u64;
            }
            Err(e) => break e,
        }
    };
    assert!(matches!(error, Error::NoSpace), "{error}");
    assert!(rig.volume.statfs().bfree < 3);
    assert_eq!(rig.size(ino), written);
    // Existing blocks can be overwritten.
    rig.write(ino, 5 * BLOCK, &data);
    assert!(matches!(rig.volume.fallocate(ino, FallocMode::Allocate, written, 1 << 20), Err(Error::NoSpace)));
    rig.remount();
    assert_eq!(rig.read(ino, 5 * BLOCK, data.len()), data);
    assert_eq!(rig.read(ino, written - 2 * BLOCK, 1 << 20).len() as u64, 2 * BLOCK);
    rig.truncate(ino, 0);
    rig.volume.sync().unwrap();
    rig.write(ino, 0, &data);
    rig.remount();
    assert_eq!(rig.read(ino, 0, 2 << 20), data);
}

#[test]
fn preallocation_stops_when_space_runs_out() {
    let mut rig = Rig::new(64, &MkfsOptions::default());
    let ino = rig.create("f");
    let e = rig.volume.fallocate(ino, FallocMode::Allocate, 0, 1 << 40).unwrap_err();
    assert!(matches!(e, Error::NoSpace), "{e}");
    let size = rig.size(ino);
    assert!(size > 0 && size.is_multiple_of(BLOCK), "size {size}");
    rig.remount();
    assert_eq!(rig.size(ino), size);
    rig.truncate(ino, 0);
    rig.remount();
}

#[test]
fn a_failed_write_is_reported_and_retried() {
    let mem: Arc<MemDevice> = fresh(128, &MkfsOptions::default());
    let dev = Arc::new(FaultDevice::new(mem.clone(), Vec::new()));
    let volume = Volume::mount(dev.clone(), quiet()).unwrap();
    let new =
        |name: &[u8]| volume.mknod(volume.root(), name, 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    let fail = |lasting| {
        dev.set_plan(vec![Fault { call: FaultCall::Write, nth: 0, error: FaultError::Io, lasting }]);
    };
    let data = pattern(5, 300_000);
    let mut seen = vec![0; data.len()];
    let a = new(b"a");
    volume.write(a, 0, &data).unwrap();
    fail(false);
    assert_eq!(volume.sync().unwrap_err().errno(), 5);
    volume.read(a, 0, &mut seen).unwrap();
    assert!(seen == data, "the data is still there");
    volume.sync().unwrap();
    assert_eq!(volume.fsync(a).unwrap_err().errno(), 5, "fsync reports it once");
    volume.fsync(a).unwrap();
    // In a batch of several files, none fails if the retry of each succeeds.
    let inos = [a, new(b"b"), new(b"c")];
    let others = pattern(6, 300_000);
    inos.iter().for_each(|&ino| assert_eq!(volume.write(ino, 0, &others).unwrap(), others.len()));
    fail(false);
    volume.sync().unwrap();
    assert_eq!(dev.failed(), 1);
    inos.iter().for_each(|&ino| volume.fsync(ino).unwrap());
    // Permanent write failures do not prevent reads.
    volume.write(a, 0, &data).unwrap();
    fail(true);
    assert!(volume.sync().is_err());
    volume.read(a, 0, &mut seen).unwrap();
    assert!(seen == data);
    dev.set_plan(Vec::new());
    volume.unmount().unwrap();
    assert_clean(&*mem);
    let volume = mount(&mem);
    for (ino, expected) in inos.into_iter().zip([&data, &others, &others]) {
        volume.read(ino, 0, &mut seen).unwrap();
        assert!(seen == *expected, "ino {ino}");
    }
}
