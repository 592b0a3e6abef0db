//! Records in the superblocks when a volume stops or finds damage.
use crate::common::{assert_clean, assert_finds_only, fresh, quiet};
use segno_check::Kind;
use segno_device::{BlockDevice, MemDevice};
use segno_engine::lab::Probe;
use segno_engine::{Error, MountOptions, Notice, Observer, Owner, Volume};
use segno_format::inode::RawInode;
use segno_format::superblock::RawSuperblock;
use segno_format::{Block, Ino};
use segno_mkfs::MkfsOptions;
use segno_testkit::{
    CrashLog, CrashPlan, CrashStates, Fault, FaultCall, FaultDevice, FaultError, RecordDevice,
};
use std::sync::{Arc, Mutex};

fn superblocks(dev: &MemDevice) -> [RawSuperblock; 2] {
    [0, 1].map(|copy| {
        let mut one = [Block::zeroed()];
        dev.read(copy, &mut one).unwrap();
        RawSuperblock::from_block(&one[0].0)
    })
}

/// Makes a device call of a checkpoint fail, once or permanently.
fn stopped_by(
    call: FaultCall,
    lasting: bool,
) -> (Arc<MemDevice>, Arc<FaultDevice<Arc<MemDevice>>>, Arc<Volume>) {
    let mem = fresh(96, &MkfsOptions::default());
    let dev = Arc::new(FaultDevice::new(mem.clone(), Vec::new()));
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let observer = Observer::new(move |n| heard.lock().unwrap().push(n.clone()));
    let v = Volume::mount(dev.clone(), MountOptions { observer, ..quiet() }).unwrap();
    v.mkdir(Ino::ROOT, b"d", 0o755, Owner::default()).unwrap();
    dev.set_plan(vec![Fault { call, nth: 0, error: FaultError::Io, lasting }]);
    let why = v.sync().unwrap_err().to_string();
    assert!(v.is_stopped());
    assert_eq!(*told.lock().unwrap(), [Notice::Stopped(why)]);
    (mem, dev, v)
}

#[test]
fn a_failed_write_or_flush_is_recorded_in_both_superblocks() {
    for (call, told) in [(FaultCall::Write, "write failure"), (FaultCall::Flush, "flush failure")] {
        let (mem, _, v) = stopped_by(call, false);
        for sb in superblocks(&mem) {
            assert_eq!(sb.stops(), [(told, 1)]);
            assert!(sb.damage().is_empty());
            sb.parse(0).unwrap();
        }
        assert!(matches!(v.mkdir(Ino::ROOT, b"e", 0o755, Owner::default()), Err(Error::Stopped)));
        v.unmount().unwrap();
        drop(v);
        let again = Volume::mount(mem.clone(), quiet()).unwrap();
        again.unmount().unwrap();
        assert_finds_only(&*mem, &[Kind::ErrorRecord]);
        assert_eq!(superblocks(&mem)[0].stops(), [(told, 1)], "repair clears it");
    }
}

#[test]
fn a_dead_device_is_left_alone() {
    let (mem, dev, v) = stopped_by(FaultCall::Any, true);
    let calls = dev.failed();
    assert!(v.sync().is_err() && Probe(&v).tick().is_err());
    v.unmount().unwrap();
    assert_eq!(dev.failed(), calls, "calls after the volume stopped");
    assert_clean(&*mem);
}

#[test]
fn damage_is_recorded_by_the_next_checkpoint() {
    let mem = fresh(96, &MkfsOptions::default());
    let v = Volume::mount(mem.clone(), quiet()).unwrap();
    let ino = v.mkdir(Ino::ROOT, b"d", 0o755, Owner::default()).unwrap().ino;
    v.unmount().unwrap();
    drop(v);
    for addr in 0..mem.block_count() {
        let mut one = [Block::zeroed()];
        mem.read(addr, &mut one).unwrap();
        let raw: &mut RawInode = one[0].view_mut();
        if raw.footer.nid.get() == ino.0 && raw.footer.ino.get() == ino.0 {
            raw.i_namelen = 300.into();
            mem.write(addr, &[&one[0]]).unwrap();
        }
    }
    let v = Volume::mount(mem.clone(), quiet()).unwrap();
    assert!(matches!(v.getattr(ino), Err(Error::Corrupt(_))));
    assert!(superblocks(&mem)[0].damage().is_empty());
    v.sync().unwrap();
    for sb in superblocks(&mem) {
        assert_eq!(sb.damage(), ["corrupted inode"]);
        assert!(sb.stops().is_empty());
    }
    let report = segno_check::check(&*mem, &segno_check::CheckOptions::default(), &mut |_| {}).unwrap();
    let asks = |p: &segno_check::Problem| p.kind == Kind::CheckpointFlag && p.why.contains("full check");
    assert!(report.problems.iter().any(asks), "{:?}", report.problems);
}

/// A power cut while a label is stored leaves the old or the new label, and a volume that mounts.
#[test]
fn a_label_survives_cuts_and_other_records() {
    let mem = fresh(96, &MkfsOptions { label: "old".into(), ..MkfsOptions::default() });
    let base = mem.snapshot();
    let dev = Arc::new(RecordDevice::new(mem.clone()));
    let v = Volume::mount(dev.clone(), quiet()).unwrap();
    v.set_label("new").unwrap();
    assert!(matches!(v.set_label(&"x".repeat(513)), Err(Error::Invalid(_))));
    assert_eq!(v.label(), "new");
    let log = CrashLog::new(base, dev.log()).unwrap();
    let states = CrashStates::new(&log, CrashPlan::new(1), |_, _| true);
    let mut seen = [0, 0];
    for state in states {
        let again = Volume::mount(Arc::new(state.device), quiet()).unwrap();
        match again.label().as_str() {
            "old" => seen[0] += 1,
            "new" => seen[1] += 1,
            other => panic!("{other} after {:?}", state.choice),
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    v.unmount().unwrap();
    assert_eq!(superblocks(&mem).map(|sb| sb.label()), ["new", "new"]);
    assert_clean(&*mem);
}
