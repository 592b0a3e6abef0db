//! Mount and unmount without operations in between.
use crate::common::{assert_clean, fresh, mount, quiet};
use segno_engine::Volume;
use segno_mkfs::MkfsOptions;

#[test]
fn a_fresh_volume_survives_mounting_many_times() {
    let dev = fresh(128, &MkfsOptions::default());
    assert_clean(&*dev);
    for _ in 0..4 {
        mount(&dev).unmount().unwrap();
        assert_clean(&*dev);
    }
}

#[test]
fn foreign_and_short_devices_are_refused_by_name() {
    let zero = std::sync::Arc::new(segno_device::MemDevice::new(4096));
    let e = Volume::mount(zero, quiet()).err().unwrap();
    assert!(e.to_string().contains("superblock at block 0: magic number"), "{e}");
}
