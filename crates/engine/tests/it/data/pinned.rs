//! Blocks of a pinned file do not move: programs that access the device directly rely on that.
use super::{Rig, pattern};
use crate::common::{mount, unmount_and_pin};
use segno_format::Ino;
use segno_mkfs::MkfsOptions;

fn pin(rig: &mut Rig, ino: Ino) {
    unmount_and_pin(&rig.volume, &*rig.dev, ino);
    rig.volume = mount(&rig.dev);
}

#[test]
fn pinned_files_are_overwritten_in_place() {
    let mut rig = Rig::new(128, &MkfsOptions::default());
    let ino = rig.create("swap");
    rig.write(ino, 0, &pattern(1, 100_000));
    rig.volume.sync().unwrap();
    pin(&mut rig, ino);
    let before = rig.volume.extents(ino).unwrap();
    let new = pattern(2, 100_000);
    rig.write(ino, 0, &new);
    rig.volume.fsync(ino).unwrap();
    assert_eq!(rig.volume.extents(ino).unwrap(), before);
    rig.remount();
    assert_eq!(rig.read(ino, 0, 100_000), new);
    assert_eq!(rig.volume.extents(ino).unwrap(), before);
}
