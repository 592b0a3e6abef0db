//! A cache above the volume holds written data: it sends whole blocks in any order, and keeps the times.
use super::{BLOCK, Rig, pattern};
use segno_engine::{Error, FallocMode, SetAttr, Time};
use segno_format::Ino;
use segno_format::inode::InodeFlags;
use segno_mkfs::MkfsOptions;

fn cached() -> Rig {
    let rig = Rig::new(64, &MkfsOptions::default());
    rig.volume.set_cached_writes();
    rig
}

fn times(rig: &Rig, ino: Ino) -> (Time, Time) {
    let attr = rig.volume.getattr(ino).unwrap();
    (attr.mtime, attr.ctime)
}

#[test]
fn content_changes_without_its_times() {
    let mut rig = cached();
    let (ino, other) = (rig.create("f"), rig.create("other"));
    rig.write(other, 0, &pattern(3, 10_000));
    let t = Time { secs: 7, nsec: 8 };
    let set = SetAttr { mtime: Some(t), ctime: Some(t), ..SetAttr::default() };
    rig.volume.setattr(ino, &set).unwrap();
    let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    rig.write(ino, 0, b"inline");
    rig.write(ino, 0, &pattern(1, 50_000));
    for mode in [FallocMode::Allocate, FallocMode::PunchHole, FallocMode::ZeroRange] {
        rig.volume.fallocate(ino, mode, 5000, 20_000).unwrap();
    }
    rig.volume.copy_range(other, 0, ino, 0, 10_000).unwrap();
    rig.volume.setattr(ino, &size(9000)).unwrap();
    assert_eq!(times(&rig, ino), (t, t));
    // Attributes that come with a ctime get it.
    let later = Time { secs: 9, nsec: 0 };
    let chmod = SetAttr { mode: Some(0o600), ctime: Some(later), ..SetAttr::default() };
    rig.volume.setattr(ino, &chmod).unwrap();
    assert_eq!(times(&rig, ino), (t, later));
    rig.remount();
    assert_eq!(times(&rig, ino), (t, later));
}

/// Later blocks arrive first, and the last block comes again with more bytes.
#[test]
fn an_append_only_file_grows_in_any_order() {
    for len in [3000, 5 * BLOCK as usize + 100] {
        let mut rig = cached();
        let (ino, data) = (rig.create("log"), pattern(5, 9 * BLOCK as usize));
        rig.write(ino, 0, &data[..len]);
        rig.volume.set_flags(ino, InodeFlags::APPEND).unwrap();
        for block in [8, 6, 7] {
            let at = block * BLOCK as usize;
            rig.write(ino, at as u64, &data[at..][..BLOCK as usize]);
        }
        rig.write(ino, 0, &data[..6 * BLOCK as usize]);
        assert_eq!(rig.read(ino, 0, data.len()), data);
        rig.remount();
        assert_eq!(rig.read(ino, 0, data.len()), data);
    }
}

#[test]
fn an_append_only_file_keeps_its_bytes() {
    for len in [3000, 5 * BLOCK as usize + 100] {
        let rig = cached();
        let (ino, data) = (rig.create("log"), vec![b'a'; len]);
        rig.write(ino, 0, &data);
        rig.volume.set_flags(ino, InodeFlags::APPEND).unwrap();
        for at in [0, len / 2, len - 1] {
            let refused = rig.volume.write(ino, at as u64, b"bb");
            assert!(matches!(refused, Err(Error::NotPermitted(_))), "{at} of {len}: {refused:?}");
        }
        assert_eq!(rig.read(ino, 0, len + 1), data);
    }
}
