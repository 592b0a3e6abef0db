//! Zoned volumes: what a crash left is replayed in memory by the rules of the zones, and the device stays as it is.
use crate::setup;
use crate::zones::ZoneLayer;
use segno_device::{BlockDevice, MemDevice};
use segno_engine::{MountOptions, Owner, Volume};
use segno_repair::{Overlay, Pending, PlanOptions, RepairError, plan};
use std::sync::Arc;

fn mount(device: Arc<dyn BlockDevice>) -> Arc<Volume> {
    Volume::mount(device, MountOptions { background: false, ..MountOptions::default() }).unwrap()
}

#[test]
fn replay_in_memory() {
    let base = setup::chosen(Some("zoned"), 0).unwrap().base;
    let memory = Arc::new(MemDevice::from_snapshot(&base));
    let volume = mount(Arc::new(ZoneLayer::open(memory.clone()).unwrap()));
    let file = volume.mknod(volume.root(), b"fsynced", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    volume.write(file, 0, &[7; 50_000]).unwrap();
    volume.fsync(file, false).unwrap();
    // The power fails here.
    let left = Arc::new(MemDevice::from_snapshot(&memory.snapshot()));
    let device: Arc<dyn BlockDevice> = Arc::new(ZoneLayer::open(left).unwrap());
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
    let mut replay = |_| Ok(());
    let refused = plan(&device, Pending::Chain, &mut replay, PlanOptions::default());
    assert!(matches!(refused, Err(RepairError::Refused(why)) if why.contains("zoned volumes")));
}
