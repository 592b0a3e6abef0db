//! Zoned volumes: replay in memory and repair follow the rules of the zones.
use crate::setup;
use crate::zones::{CONVENTIONAL, ZONE, ZoneLayer, scramble};
use segno_device::{BlockDevice, MemDevice, Overlay, Snapshot};
use segno_engine::{MountOptions, Owner, Volume};
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::inode::RawInode;
use segno_format::nat::RawNatBlock;
use segno_repair::{Pending, Plan, PlanOptions, plan};
use segno_testkit::{CrashLog, CrashPlan, CrashStates, RecordDevice};
use std::sync::Arc;

fn mount(device: Arc<dyn BlockDevice>) -> Arc<Volume> {
    Volume::mount(device, MountOptions { background: false, ..MountOptions::default() }).unwrap()
}

#[test]
fn replay_in_memory() {
    let base = setup::chosen(Some("zoned"), 0).unwrap().base;
    let memory = Arc::new(MemDevice::from_snapshot(&base));
    let volume = mount(Arc::new(ZoneLayer::open(memory.clone(), CONVENTIONAL).unwrap()));
    let file = volume.mknod(volume.root(), b"fsynced", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    volume.write(file, 0, &[7; 50_000]).unwrap();
    volume.fsync(file).unwrap();
    // The power fails here.
    let memory_copy = Arc::new(MemDevice::from_snapshot(&memory.snapshot()));
    let device: Arc<dyn BlockDevice> = Arc::new(ZoneLayer::open(memory_copy, CONVENTIONAL).unwrap());
    let pointers = |d: &dyn BlockDevice| d.zones().unwrap().iter().map(|z| z.pointer).collect::<Vec<_>>();
    let before = pointers(&*device);
    let found = super::repair::check(&*device).unwrap();
    assert!(found.is_clean() && found.summary.files == 0 && found.summary.roll_forward.fsynced > 0);
    let overlay = Arc::new(Overlay::new(device.clone()));
    mount(overlay.clone()).unmount().unwrap();
    let found = super::repair::check(&*overlay).unwrap();
    assert!(found.is_clean() && found.summary.files == 1 && found.summary.roll_forward.fsynced == 0);
    assert_ne!(pointers(&*overlay), before);
    assert_eq!(pointers(&*device), before);
    // The same on the device.
    mount(device.clone()).unmount().unwrap();
    let found = super::repair::check(&*device).unwrap();
    assert!(found.is_clean() && found.summary.files == 1);
}

/// A volume with some files, in which inodes have wrong counts of links and a node has no NAT entry.
fn damaged() -> Snapshot {
    let base = setup::chosen(Some("zoned"), 0).unwrap().base;
    let memory = Arc::new(MemDevice::from_snapshot(&base));
    let volume = mount(Arc::new(ZoneLayer::open(memory.clone(), CONVENTIONAL).unwrap()));
    let mut files = Vec::new();
    for i in 0..20 {
        let name = format!("file{i}");
        let file = volume.mknod(volume.root(), name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap();
        volume.write(file.ino, 0, &[i; 30_000]).unwrap();
        files.push(file.ino);
    }
    volume.unmount().unwrap();
    drop(volume);
    let device = ZoneLayer::open(memory.clone(), CONVENTIONAL).unwrap();
    let vol = segno_rescue::Volume::unscanned(&device);
    let (sb, geo) = (vol.superblock.as_ref().unwrap(), vol.geo.unwrap());
    for ino in files.iter().step_by(3) {
        let addr = vol.nat.as_ref().unwrap().entry(ino.nid()).addr();
        let mut block = vol.reader.block(addr).unwrap();
        block.view_mut::<RawInode>().i_links.set(7);
        segno_format::inode::seal_checksum(&mut block, sb.features, sb.inode_checksum_seed());
        memory.write(addr.0.into(), &[&scramble(&block)]).unwrap();
    }
    let lost = files[1].0;
    let b = lost / NAT_PER_BLOCK;
    let at = geo.nat_addr(b, vol.pack.as_ref().unwrap().nat_copy(b));
    let mut block = vol.reader.block(at).unwrap();
    block.view_mut::<RawNatBlock>().entries[(lost % NAT_PER_BLOCK) as usize].block_addr.set(0);
    memory.write(at.0.into(), &[&block]).unwrap();
    memory.snapshot()
}

fn planned(device: &Arc<dyn BlockDevice>) -> Plan {
    let mut replay = |_| Err("there is nothing to replay".to_owned());
    plan(device, Pending::Chain, &mut replay, PlanOptions::default()).unwrap()
}

/// New copies of nodes go to an empty zone, from its start; at every cut the volume is as before or repaired.
#[test]
fn repair_follows_write_pointers() {
    let before = damaged();
    let recorded = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&before)));
    let device: Arc<dyn BlockDevice> = Arc::new(ZoneLayer::open(recorded.clone(), CONVENTIONAL).unwrap());
    let old = super::repair::check(&*device).unwrap();
    assert!(old.errors >= 7, "{:?}", old.problems);
    let found = planned(&device);
    assert!(!found.has_loss(), "{:?}", found.actions);
    found.apply(&*device).unwrap();
    assert!(super::repair::check(&*device).unwrap().problems.is_empty());
    let log = CrashLog::new(before, recorded.log()).unwrap();
    let crashes = CrashPlan { subsets: 1, torn_data: 0, ..CrashPlan::new(1) };
    let (mut as_before, mut sound) = (0, 0);
    for state in CrashStates::new(&log, crashes, |_, _| true) {
        ZoneLayer::settle(&state.device, CONVENTIONAL * ZONE..state.device.block_count()).unwrap();
        let copy = Arc::new(MemDevice::from_snapshot(&state.device.snapshot()));
        let copy: Arc<dyn BlockDevice> = Arc::new(ZoneLayer::open(copy, CONVENTIONAL).unwrap());
        let now = super::repair::check(&*copy).unwrap();
        if now.problems == old.problems {
            as_before += 1;
            // The zone that was begun is not used again.
            if as_before % 8 == 0 {
                planned(&copy).apply(&*copy).unwrap();
                assert!(super::repair::check(&*copy).unwrap().is_clean());
            }
        } else {
            assert!(now.is_clean(), "{}: {:?}", state.choice, now.problems);
            sound += 1;
        }
    }
    assert!(as_before > 10 && sound > 0, "{as_before} {sound}");
    let volume = mount(device);
    for i in 0..20 {
        let ino = volume.lookup(volume.root(), format!("file{i}").as_bytes()).unwrap().ino;
        let mut bytes = vec![0; 30_000];
        assert_eq!(volume.read(ino, 0, &mut bytes).unwrap(), 30_000);
        assert!(bytes.iter().all(|b| *b == i), "file{i}");
    }
    volume.unmount().unwrap();
}
