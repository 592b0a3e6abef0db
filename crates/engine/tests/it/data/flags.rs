//! Restrictions by inode flags.
use super::{Rig, pattern};
use segno_engine::{Error, FallocMode, SetAttr};
use segno_format::inode::InodeFlags;
use segno_mkfs::MkfsOptions;

#[test]
fn immutable_and_append_only_files() {
    let mut rig = Rig::new(128, &MkfsOptions::default());
    let ino = rig.create("f");
    let data = pattern(1, 10_000);
    rig.write(ino, 0, &data);
    let v = rig.volume.clone();
    let forbidden = |r: Result<(), Error>| assert!(matches!(r, Err(Error::NotPermitted(_))), "{r:?}");
    let resize = |size| v.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }).map(drop);
    v.set_flags(ino, InodeFlags::IMMUTABLE).unwrap();
    forbidden(v.write(ino, 10_000, b"x").map(drop));
    forbidden(v.fallocate(ino, FallocMode::Allocate, 0, 1 << 20));
    forbidden(resize(5));
    v.set_flags(ino, InodeFlags::APPEND).unwrap();
    forbidden(v.write(ino, 9_999, b"x").map(drop));
    forbidden(v.fallocate(ino, FallocMode::PunchHole, 0, 4096));
    forbidden(v.fallocate(ino, FallocMode::ZeroRange, 0, 4096));
    forbidden(v.fallocate(ino, FallocMode::CollapseRange, 0, 4096));
    forbidden(resize(5));
    v.fallocate(ino, FallocMode::AllocateKeepSize, 0, 1 << 20).unwrap();
    assert_eq!(v.write(ino, 10_000, b"end").unwrap(), 3);
    drop(v);
    rig.remount();
    assert_eq!(rig.read(ino, 0, 20_000), [&data[..], b"end"].concat());
}

#[test]
fn only_regular_files_have_data() {
    let rig = Rig::new(128, &MkfsOptions::default());
    let v = &rig.volume;
    let fifo = v.mknod(v.root(), b"fifo", 0o010_644, (0, 0), segno_engine::Owner::default()).unwrap().ino;
    assert!(matches!(v.read(v.root(), 0, &mut [0; 9]), Err(Error::IsDir)));
    assert!(matches!(v.write(v.root(), 0, b"x"), Err(Error::IsDir)));
    assert!(matches!(v.write(fifo, 0, b"x"), Err(Error::Invalid(_))));
    assert!(matches!(v.fallocate(fifo, FallocMode::Allocate, 0, 1), Err(Error::Invalid(_))));
    assert!(v.extents(fifo).unwrap().is_empty());
    let ino = rig.create("f");
    for (at, len) in [(1, 4096), (4096, 1), (0, 0)] {
        assert!(matches!(v.fallocate(ino, FallocMode::CollapseRange, at, len), Err(Error::Invalid(_))));
    }
    assert!(matches!(v.fallocate(ino, FallocMode::Allocate, u64::MAX, 2), Err(Error::FileTooBig)));
}
