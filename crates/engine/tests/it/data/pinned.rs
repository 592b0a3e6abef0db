//! A pinned file stays where it is: whoever reads the device directly relies on that.
use super::{Rig, pattern};
use segno_device::BlockDevice;
use segno_format::inode::{Inline, RawInode};
use segno_format::{Block, Ino};
use segno_mkfs::MkfsOptions;

/// Sets the flag in every copy of the inode on the device, as Linux's ioctl does in the newest.
fn pin(rig: &mut Rig, ino: Ino) {
    let geo = rig.volume.superblock().geo;
    rig.volume.unmount().unwrap();
    for at in geo.main_blkaddr..geo.main_end() {
        let mut one = [Block::zeroed()];
        rig.dev.read(at.into(), &mut one).unwrap();
        let raw: &mut RawInode = one[0].view_mut();
        if raw.footer.nid.get() == ino.0 && raw.footer.ino.get() == ino.0 {
            raw.i_inline |= Inline::PIN_FILE.bits();
            rig.dev.write(at.into(), &[&one[0]]).unwrap();
        }
    }
    rig.volume = crate::common::mount(&rig.dev);
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
    rig.volume.fsync(ino, false).unwrap();
    assert_eq!(rig.volume.extents(ino).unwrap(), before);
    rig.remount();
    assert_eq!(rig.read(ino, 0, 100_000), new);
    assert_eq!(rig.volume.extents(ino).unwrap(), before);
}
