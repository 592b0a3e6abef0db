//! Inodes without a name.
use super::*;

/// Blocks and inodes in use.
fn used(v: &Volume) -> (u64, u64) {
    let s = v.statfs();
    (s.bfree, s.ffree)
}

#[test]
fn an_unlinked_file_is_kept_until_its_last_handle_is_closed() {
    let rig = Rig::new(Features::empty());
    let before = used(&rig.v);
    let f = rig.file(ROOT, "f");
    rig.v.open(f).unwrap();
    rig.v.open(f).unwrap();
    let data = vec![7; 100_000];
    rig.v.write(f, 0, &data).unwrap();
    rig.v.unlink(ROOT, b"f").unwrap();
    assert_eq!(rig.attr(f).nlink, 0);
    rig.v.release(f).unwrap();
    let mut back = vec![0; data.len()];
    assert_eq!(rig.v.read(f, 0, &mut back).unwrap(), data.len());
    assert_eq!(back, data);
    assert_eq!(errno(rig.v.link(f, ROOT, b"again")), 2);
    rig.v.release(f).unwrap();
    assert_eq!(errno(rig.v.getattr(f)), 2);
    assert_eq!(errno(rig.v.read(f, 0, &mut back)), 2);
    assert_eq!(used(&rig.v), before);
    rig.finish();
}

#[test]
fn open_orphans_are_gone_after_unmounting() {
    let mut rig = Rig::new(Features::empty());
    let before = used(&rig.v);
    let f = rig.file(ROOT, "f");
    rig.v.open(f).unwrap();
    rig.v.write(f, 1 << 20, &[1; 5000]).unwrap();
    rig.v.unlink(ROOT, b"f").unwrap();
    let d = rig.dir(ROOT, "d");
    rig.v.open(d).unwrap();
    rig.v.rmdir(ROOT, b"d").unwrap();
    rig.v.tmpfile(ROOT, 0o600, Owner::default()).unwrap();
    rig.remount();
    assert_eq!(used(&rig.v), before);
    rig.finish();
}

#[test]
fn orphans_of_a_crash_are_freed_at_the_next_mount() {
    let rig = Rig::new(Features::empty());
    rig.v.sync().unwrap();
    let before = used(&rig.v);
    let f = rig.file(ROOT, "f");
    rig.v.open(f).unwrap();
    rig.v.write(f, 0, &vec![1; 3 << 20]).unwrap();
    rig.v.setxattr(f, b"user.big", &[2; 2000], segno_engine::XattrMode::Set).unwrap();
    rig.v.unlink(ROOT, b"f").unwrap();
    rig.v.tmpfile(ROOT, 0o600, Owner::default()).unwrap();
    rig.v.sync().unwrap();
    assert_ne!(used(&rig.v), before);
    let copy = Arc::new(MemDevice::from_snapshot(&rig.dev.snapshot()));
    let v = mount(&copy);
    assert_eq!(used(&v), before);
    assert_eq!(errno(v.getattr(f)), 2);
    v.unmount().unwrap();
    assert_clean(&*copy);
    rig.finish();
}

#[test]
fn a_file_without_a_name_can_be_linked() {
    let mut rig = Rig::new(ALL);
    let d = rig.dir(ROOT, "d");
    let t = rig.v.tmpfile(d, 0o640, Owner { uid: 3, gid: 4, umask: 0o22 }).unwrap();
    assert_eq!((t.nlink, t.mode, t.uid, t.gid), (0, 0o100_640, 3, 4));
    rig.v.write(t.ino, 0, b"content").unwrap();
    assert_eq!(rig.names(d), [""; 0]);
    assert_eq!(rig.v.link(t.ino, d, b"named").unwrap().nlink, 1);
    assert_eq!(rig.v.link(t.ino, ROOT, b"twice").unwrap().nlink, 2);
    rig.v.release(t.ino).unwrap();
    rig.remount();
    let mut buf = [0; 16];
    assert_eq!(rig.v.read(rig.lookup(d, "named"), 0, &mut buf).unwrap(), 7);
    assert_eq!(&buf[..7], b"content");
    let gone = rig.v.tmpfile(d, 0o600, Owner::default()).unwrap().ino;
    rig.v.release(gone).unwrap();
    assert_eq!(errno(rig.v.getattr(gone)), 2);
    rig.finish();
}

#[test]
fn freed_inode_numbers_are_reused() {
    let rig = Rig::new(Features::empty());
    let mut generations = std::collections::HashMap::new();
    for round in 0..5 {
        for i in 0..300 {
            let a = rig.v.mknod(ROOT, format!("f{i}").as_bytes(), REG, (0, 0), Owner::default()).unwrap();
            assert_ne!(generations.insert(a.ino, a.generation), Some(a.generation), "round {round}");
            assert_eq!((a.size, a.nlink), (0, 1));
        }
        for i in 0..300 {
            rig.v.unlink(ROOT, format!("f{i}").as_bytes()).unwrap();
        }
        rig.v.sync().unwrap();
    }
    rig.finish();
}
