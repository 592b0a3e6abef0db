//! Failing devices: a successful fsync is durable, and a failed one loses no acknowledged data.
use super::*;
use crate::common::assert_finds_only;
use segno_engine::lab::Probe;
use segno_testkit::{Fault, FaultCall, FaultDevice, FaultError};

/// Overwrites and fsyncs on a device whose n-th call fails, once or permanently. Returns whether that call was
/// reached.
fn fail_one_call(nth: u64, error: FaultError, lasting: bool) -> bool {
    let mem = fresh(96, &MkfsOptions::default());
    let dev = Arc::new(FaultDevice::new(mem.clone(), Vec::new()));
    let v = Volume::mount(dev.clone(), quiet()).unwrap();
    let (old, new) = (pattern(1, 40 * BLOCK), pattern(2, 40 * BLOCK));
    let ino = create_in(&v, Ino::ROOT, "a");
    v.write(ino, 0, &old).unwrap();
    v.write(ino, 2_000 * BLOCK as u64, &old).unwrap();
    v.fsync(ino, false).unwrap();
    v.sync().unwrap();
    dev.set_plan(vec![Fault { call: FaultCall::Any, nth, error, lasting }]);
    let write = v.write(ino, 0, &new).and_then(|_| v.write(ino, 2_000 * BLOCK as u64, &new));
    let mut done = write.is_ok() && v.fsync(ino, false).is_ok();
    let failed = dev.failed() > 0;
    if !done && write.is_ok() && !lasting {
        done = v.fsync(ino, false).is_ok();
        assert!(done || v.is_stopped(), "call {nth}: neither repeated nor stopped");
    }
    let crashed = Arc::new(MemDevice::from_snapshot(&mem.snapshot()));
    let v = Volume::mount(crashed.clone(), quiet()).unwrap();
    let content = content_of(&v, v.lookup(Ino::ROOT, b"a").unwrap().ino);
    for at in [0, 2_000] {
        for i in at..at + 40 {
            let found = &content[i * BLOCK..][..BLOCK];
            let fine = found == &new[(i - at) * BLOCK..][..BLOCK]
                || (!done && found == &old[(i - at) * BLOCK..][..BLOCK]);
            assert!(fine, "call {nth}, {error:?}, lasting {lasting}: block {i}");
        }
    }
    v.unmount().unwrap();
    // A stopped volume has the reason in its superblocks.
    assert_finds_only(&*crashed, &[segno_check::Kind::ErrorRecord, segno_check::Kind::SuperblockStale]);
    failed
}

#[test]
fn every_call_of_an_fsync_may_fail() {
    for (error, lasting) in [(FaultError::Io, false), (FaultError::NoSpace, false), (FaultError::Io, true)] {
        let calls = (0..100).take_while(|&nth| fail_one_call(nth, error, lasting)).count();
        assert!((4..50).contains(&calls), "{calls} calls");
    }
}

#[test]
fn a_background_write_failure_is_reported_once() {
    let mem = fresh(96, &MkfsOptions::default());
    let dev = Arc::new(FaultDevice::new(mem.clone(), Vec::new()));
    let v = Volume::mount(dev.clone(), quiet()).unwrap();
    let ino = create_in(&v, Ino::ROOT, "a");
    v.write(ino, 0, &pattern(1, 9 * BLOCK)).unwrap();
    dev.set_plan(vec![Fault { call: FaultCall::Write, nth: 0, error: FaultError::Io, lasting: false }]);
    assert!(Probe(&v).tick().is_err());
    Probe(&v).tick().unwrap();
    assert!(v.fsync(ino, false).is_err(), "the write failed since the last fsync");
    v.fsync(ino, false).unwrap();
    v.unmount().unwrap();
    assert_clean(&*mem);
}
