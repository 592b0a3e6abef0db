//! Power cuts while blocks of a file move: the file is as before or as after.
use super::{BLOCK, pattern};
use crate::common::{assert_clean, fresh, mount, quiet};
use segno_device::MemDevice;
use segno_engine::{FallocMode, Owner, Volume};
use segno_mkfs::MkfsOptions;
use segno_testkit::{CrashLog, CrashPlan, CrashStates, RecordDevice};
use std::sync::Arc;

/// The file has blocks in the inode, in two direct nodes and below an indirect node, with holes between.
const PARTS: [(u64, u64); 3] = [(0, 12), (860, 20), (2_890, 30)];
const SEED: u64 = 0x5EED_CAFE;

fn content(v: &Volume) -> Vec<u8> {
    let attr = v.lookup(v.root(), b"f").unwrap();
    let mut bytes = vec![0; attr.size as usize];
    assert_eq!(v.read(attr.ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn cut_while_moving(mode: FallocMode, at: u64, len: u64) {
    let dev = fresh(96, &MkfsOptions::default());
    let v = mount(&dev);
    let ino = v.mknod(v.root(), b"f", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    for (block, n) in PARTS {
        v.write(ino, block * BLOCK, &pattern(block, (n * BLOCK) as usize)).unwrap();
    }
    v.unmount().unwrap();
    let base = dev.snapshot();
    let dev = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
    let v = Volume::mount(dev.clone(), quiet()).unwrap();
    let old = content(&v);
    v.fallocate(ino, mode, at * BLOCK, len * BLOCK).unwrap();
    let new = content(&v);
    assert_ne!(old, new);
    dev.mark("moved");
    v.fsync(ino).unwrap();
    dev.mark("durable");
    v.sync().unwrap();
    let main = v.superblock().geo.main_blkaddr.into();
    let log = CrashLog::new(base, dev.log()).unwrap();
    let plan = CrashPlan { subsets: 10, torn_data: 10, ..CrashPlan::new(SEED) };
    let mut seen = [0, 0];
    for state in CrashStates::new(&log, plan, |addr, _| addr < main) {
        let (index, choice) = (state.index, state.choice);
        let durable = log.marks(choice.cut).any(|m| m == "durable");
        let dev = Arc::new(state.device);
        let v = mount(&dev);
        let found = content(&v);
        let after = found == new;
        assert!(after || (found == old && !durable), "{mode:?}, state {index} ({choice}), seed {SEED}");
        seen[usize::from(after)] += 1;
        v.unmount().unwrap();
        assert_clean(&*dev);
    }
    assert!(seen[0] > 5 && seen[1] > 0, "states before and after: {seen:?}");
}

#[test]
fn collapsing_is_atomic() {
    cut_while_moving(FallocMode::CollapseRange, 5, 3);
    cut_while_moving(FallocMode::CollapseRange, 10, 900);
}

#[test]
fn inserting_is_atomic() {
    cut_while_moving(FallocMode::InsertRange, 5, 3);
    cut_while_moving(FallocMode::InsertRange, 2, 1_500);
}
