//! Recovery of inodes with several names or none.
use super::*;

#[test]
fn unnamed_inodes_are_freed_by_the_next_mount() {
    let mut rig = Rig::new(FsyncMode::Strict);
    rig.v.sync().unwrap();
    let free = rig.v.statfs().bfree;
    let ino = rig.file("a", &pattern(1, 900 * BLOCK));
    rig.v.open(ino).unwrap();
    let nameless = rig.v.tmpfile(Ino::ROOT, 0o600, Owner::default()).unwrap().ino;
    rig.v.write(nameless, 0, &pattern(2, 90 * BLOCK)).unwrap();
    rig.v.sync().unwrap();
    rig.v.unlink(Ino::ROOT, b"a").unwrap();
    rig.v.sync().unwrap();
    rig.crash();
    assert_eq!(rig.names(), [""; 0]);
    assert_eq!(rig.v.statfs().bfree, free);
    rig.judge();
}

#[test]
fn a_synced_unlinked_file_does_not_regain_its_name() {
    for mode in [FsyncMode::Strict, FsyncMode::Posix] {
        let mut rig = Rig::new(mode);
        let ino = rig.file("a", b"old");
        rig.v.open(ino).unwrap();
        rig.v.sync().unwrap();
        rig.v.unlink(Ino::ROOT, b"a").unwrap();
        rig.v.write(ino, 0, &pattern(4, 3 * BLOCK)).unwrap();
        rig.fsync(ino);
        rig.crash();
        assert_eq!(rig.names(), [""; 0]);
        rig.judge();
    }
}

#[test]
fn an_orphan_of_the_checkpoint_is_not_restored_by_the_chain() {
    let mut rig = Rig::new(FsyncMode::Strict);
    let ino = rig.file("a", b"old");
    rig.v.open(ino).unwrap();
    rig.v.unlink(Ino::ROOT, b"a").unwrap();
    rig.v.sync().unwrap();
    let free = rig.v.statfs().bfree;
    rig.v.write(ino, 0, &pattern(4, 3 * BLOCK)).unwrap();
    rig.fsync(ino);
    rig.crash();
    assert_eq!(rig.names(), [""; 0]);
    assert_eq!(rig.v.statfs().bfree, free + 1, "its inode block too");
    rig.judge();
}

#[test]
fn a_file_created_without_a_name_is_synced_with_its_later_name() {
    let mut rig = Rig::new(FsyncMode::Strict);
    let ino = rig.v.tmpfile(Ino::ROOT, 0o600, Owner::default()).unwrap().ino;
    rig.v.write(ino, 0, &pattern(2, 3 * BLOCK)).unwrap();
    let before = rig.checkpoints();
    rig.fsync(ino);
    assert_eq!(rig.checkpoints(), before, "nothing leads to it");
    rig.v.link(ino, Ino::ROOT, b"a").unwrap();
    rig.fsync(ino);
    rig.crash();
    assert!(rig.content("a") == pattern(2, 3 * BLOCK));
    rig.judge();
}

#[test]
fn data_of_a_file_with_two_old_names_needs_no_checkpoint() {
    let mut rig = Rig::new(FsyncMode::Strict);
    let ino = rig.file("a", b"old");
    rig.v.link(ino, Ino::ROOT, b"b").unwrap();
    rig.v.sync().unwrap();
    let before = rig.checkpoints();
    rig.v.write(ino, 0, b"new").unwrap();
    rig.fsync(ino);
    assert_eq!(rig.checkpoints(), before);
    rig.crash();
    assert_eq!((rig.content("a"), rig.content("b")), (b"new".to_vec(), b"new".to_vec()));
    assert_eq!(rig.v.getattr(ino).unwrap().nlink, 2);
    rig.judge();
}

#[test]
fn a_new_file_in_a_new_directory_is_synced() {
    let mut rig = Rig::new(FsyncMode::Posix);
    let dir = rig.v.mkdir(Ino::ROOT, b"d", 0o755, Owner::default()).unwrap().ino;
    let before = rig.checkpoints();
    rig.fsync(create_in(&rig.v, dir, "first"));
    assert_eq!(rig.checkpoints(), before + 1);
    rig.fsync(create_in(&rig.v, dir, "second"));
    assert_eq!(rig.checkpoints(), before + 1);
    rig.crash();
    assert_eq!(names_in(&rig.v, rig.ino("d")), ["first", "second"]);
    rig.judge();
}

#[test]
fn norecovery_shows_the_checkpoint_and_gives_up_nothing() {
    let rig = Rig::new(FsyncMode::Strict);
    rig.v.sync().unwrap();
    rig.fsync(rig.file("a", b"x"));
    let dev = Arc::new(MemDevice::from_snapshot(&rig.dev.snapshot()));
    let ro = MountOptions { read_only: true, ..quiet() };
    let without = Volume::mount(dev.clone(), MountOptions { norecovery: true, ..ro.clone() }).unwrap();
    assert_eq!(names_in(&without, Ino::ROOT), [""; 0]);
    let writable = MountOptions { norecovery: true, ..quiet() };
    assert!(matches!(Volume::mount(dev.clone(), writable), Err(Error::Invalid(_))));
    Volume::mount(dev.clone(), quiet()).unwrap().unmount().unwrap();
    assert_eq!(names_in(&Volume::mount(dev, ro).unwrap(), Ino::ROOT), ["a"]);
}

#[test]
fn a_damaged_superblock_copy_is_repaired() {
    for copy in [0, 1] {
        let dev = fresh(96, &MkfsOptions::default());
        dev.write(copy, &[&segno_format::Block::zeroed()]).unwrap();
        Volume::mount(dev.clone(), quiet()).unwrap().unmount().unwrap();
        assert_clean(&*dev);
    }
}
