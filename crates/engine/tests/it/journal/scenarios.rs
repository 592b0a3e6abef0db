//! Changes that survive a crash, and changes that do not.
use super::{FILE, MIB, Rig, copy, journaled};
use crate::common::{assert_clean, quiet};
use segno_device::MemDevice;
use segno_engine::lab::Probe;
use segno_engine::options::JournalMode;
use segno_engine::{Attr, FallocMode, MountOptions, Owner, RenameMode, SetAttr, Time, Volume, XattrMode};
use segno_format::Ino;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[test]
fn a_sync_is_a_commit_and_survives() {
    let mut rig = Rig::new();
    let checkpoints = rig.stat("checkpoints");
    rig.file("small", b"inline");
    rig.file("large", &[7; 10_000]);
    rig.v.sync().unwrap();
    assert_eq!(rig.stat("checkpoints"), checkpoints, "a commit is enough");
    rig.create("lost");
    rig.crash();
    assert_eq!(rig.content("small"), b"inline");
    assert_eq!(rig.content("large"), [7; 10_000]);
    assert!(!rig.has("lost"));
    rig.judge();
    assert_eq!(rig.content("large"), [7; 10_000]);
}

/// The attributes of inodes are as before, except values that depend on where replay places blocks and names.
fn assert_attrs(v: &Volume, before: &[Attr]) {
    for old in before {
        let mut new = v.getattr(old.ino).unwrap();
        new.blocks = old.blocks;
        if old.kind == segno_format::dentry::FileType::Directory {
            new.size = old.size;
        }
        assert_eq!(&new, old);
    }
}

#[test]
fn every_operation_is_replayed() {
    let mut rig = Rig::new();
    let (v, owner) = (rig.v.clone(), Owner { uid: 5, gid: 6, umask: 0 });
    let d = v.mkdir(Ino::ROOT, b"d", 0o755, owner).unwrap().ino;
    let e = v.mkdir(Ino::ROOT, b"e", 0o755, owner).unwrap().ino;
    let f = rig.file("f", b"content");
    v.symlink(Ino::ROOT, b"short", b"target", owner).unwrap();
    v.symlink(Ino::ROOT, b"long", &[b'x'; 4000], owner).unwrap();
    v.mknod(Ino::ROOT, b"dev", 0o020_600, (259, 70_000), owner).unwrap();
    let holes = rig.file("holes", &[1; 40_960]);
    let cut = rig.file("cut", &[2; 40_960]);
    v.sync().unwrap();
    // From here on in a second epoch.
    v.link(f, d, b"f2").unwrap();
    v.rename(Ino::ROOT, b"d", e, b"d2", RenameMode::Replace, owner).unwrap();
    rig.file("over", b"new");
    v.rename(Ino::ROOT, b"over", Ino::ROOT, b"f", RenameMode::Replace, owner).unwrap();
    rig.file("a", b"a");
    rig.file("b", b"b");
    v.rename(Ino::ROOT, b"a", Ino::ROOT, b"b", RenameMode::Exchange, owner).unwrap();
    rig.file("w", b"w");
    v.rename(Ino::ROOT, b"w", e, b"w2", RenameMode::Whiteout, owner).unwrap();
    v.fallocate(holes, FallocMode::PunchHole, 5_000, 10_000).unwrap();
    v.fallocate(holes, FallocMode::CollapseRange, 16_384, 8_192).unwrap();
    v.fallocate(holes, FallocMode::InsertRange, 4_096, 4_096).unwrap();
    v.fallocate(holes, FallocMode::ZeroRange, 20_000, 9_000).unwrap();
    let mut expected_holes = vec![0; v.getattr(holes).unwrap().size as usize];
    v.read(holes, 0, &mut expected_holes).unwrap();
    v.setattr(cut, &SetAttr { size: Some(5_000), ..SetAttr::default() }).unwrap();
    v.setxattr(cut, b"user.one", b"1", XattrMode::Set).unwrap();
    v.setxattr(cut, b"user.big", &[9; 3000], XattrMode::Set).unwrap();
    v.setxattr(cut, b"user.gone", b"2", XattrMode::Set).unwrap();
    v.removexattr(cut, b"user.gone").unwrap();
    let time = Time { secs: 77, nsec: 8 };
    v.setattr(cut, &SetAttr { mode: Some(0o600), uid: Some(3), mtime: Some(time), ..SetAttr::default() })
        .unwrap();
    let gone = rig.file("gone", &[3; 9000]);
    v.unlink(Ino::ROOT, b"gone").unwrap();
    v.unlink(Ino::ROOT, b"short").unwrap();
    let open = v.create(Ino::ROOT, b"open", 0o600, owner).unwrap().ino;
    v.unlink(Ino::ROOT, b"open").unwrap();
    v.sync().unwrap();
    let attr = |v: &Volume, name: &[u8]| v.lookup(Ino::ROOT, name).unwrap();
    let before: Vec<_> = [&b"f"[..], b"e", b"b", b"a", b"w", b"cut", b"holes", b"dev", b"long"]
        .iter()
        .map(|n| attr(&v, n))
        .collect();
    drop(v);
    rig.crash();
    let v = rig.v.clone();
    assert_attrs(&v, &before);
    assert_eq!(rig.content("f"), b"new");
    assert_eq!(rig.content("a"), b"b");
    assert_eq!(rig.content("holes"), expected_holes);
    assert_eq!(rig.content("cut"), [2; 5_000]);
    assert_eq!(attr(&v, b"dev").rdev, (259, 70_000));
    assert_eq!(attr(&v, b"w").kind, segno_format::dentry::FileType::CharDevice);
    let d2 = v.lookup(e, b"d2").unwrap();
    assert_eq!((d2.ino, v.lookup(d2.ino, b"..").unwrap().ino), (d, e));
    let f2 = v.lookup(d, b"f2").unwrap();
    assert_eq!((f2.ino, f2.nlink), (f, 1));
    assert_eq!(v.getxattr(cut, b"user.big").unwrap(), [9; 3000]);
    assert_eq!(v.getxattr(cut, b"user.one").unwrap(), b"1");
    assert!(v.getxattr(cut, b"user.gone").is_err());
    assert_eq!(v.readlink(attr(&v, b"long").ino).unwrap(), [b'x'; 4000]);
    for ino in [gone, open] {
        assert!(v.getattr(ino).is_err(), "{ino} was freed");
    }
    assert!(!rig.has("short"));
    rig.judge();
}

#[test]
fn recovery_can_be_repeated() {
    let rig = Rig::new();
    for i in 0..50 {
        rig.file(&format!("f{i}"), &[i; 6000]);
    }
    rig.v.sync().unwrap();
    let crashed = rig.dev.snapshot();
    for _ in 0..2 {
        let dev = Arc::new(MemDevice::from_snapshot(&crashed));
        let v = Volume::mount(dev.clone(), rig.opts.clone()).unwrap();
        assert_eq!(v.stats().journal_replayed.load(Ordering::Relaxed), 51);
        v.unmount().unwrap();
        assert_clean(&*dev);
    }
}

#[test]
fn a_mount_without_a_journal_replays_one_and_leaves_it() {
    let mut rig = Rig::new();
    rig.file("f", b"kept");
    rig.v.sync().unwrap();
    rig.crash_into(MountOptions { journal: JournalMode::Off, ..quiet() });
    assert_eq!(rig.content("f"), b"kept");
    rig.file("g", b"classic");
    rig.v.sync().unwrap();
    assert_eq!(rig.stat("journal_commits"), 0);
    rig.crash();
    assert_eq!(rig.content("g"), b"classic");
    rig.judge();
}

#[test]
fn the_checkpoint_alone_is_valid_without_the_journal() {
    let mut rig = Rig::new();
    rig.file("old", &[1; 20_000]);
    rig.v.unmount().unwrap();
    rig.v = Volume::mount(rig.dev.clone(), rig.opts.clone()).unwrap();
    let old = rig.v.lookup(Ino::ROOT, b"old").unwrap().ino;
    rig.v.write(old, 0, &[2; 20_000]).unwrap();
    rig.file("new", &[3; 20_000]);
    rig.v.sync().unwrap();
    assert_clean(&*rig.dev);
    rig.crash_into(MountOptions { read_only: true, norecovery: true, ..quiet() });
    assert_eq!(rig.content("old"), [1; 20_000]);
    assert!(!rig.has("new"));
}

#[test]
fn a_checkpoint_of_another_implementation_makes_it_stale() {
    let mut rig = Rig::with(MountOptions { guard: false, ..journaled() });
    rig.file("f", b"journaled");
    rig.v.sync().unwrap();
    // A volume without a known journal: the device ends with the F2FS volume.
    let snapshot = rig.dev.snapshot();
    let whole = MemDevice::from_snapshot(&snapshot);
    let short = Arc::new(MemDevice::new(96 * MIB));
    copy(&whole, &*short);
    let other = Volume::mount(short.clone(), quiet()).unwrap();
    other.mknod(Ino::ROOT, b"theirs", FILE, (0, 0), Owner::default()).unwrap();
    other.unmount().unwrap();
    copy(&*short, &whole);
    rig.dev = Arc::new(whole);
    rig.crash();
    assert!(rig.has("theirs") && !rig.has("f"));
    rig.judge();
}

#[test]
fn a_create_takes_few_bytes_of_the_journal() {
    const FILES: u64 = 2000;
    let rig = Rig::new();
    let dir = rig.v.mkdir(Ino::ROOT, b"dir", 0o755, Owner::default()).unwrap().ino;
    rig.v.sync().unwrap();
    let before = rig.stat("journal_bytes");
    for i in 0..FILES {
        rig.v.mknod(dir, format!("f{i:07}").as_bytes(), FILE, (0, 0), Owner::default()).unwrap();
    }
    rig.v.sync().unwrap();
    let each = (rig.stat("journal_bytes") - before) / FILES;
    assert!((40..=90).contains(&each), "{each} bytes");
}

#[test]
fn a_full_ring_is_emptied_by_checkpoints() {
    let mut rig = Rig::new();
    let checkpoints = rig.stat("checkpoints");
    let f = rig.create("f");
    for round in 0..40u8 {
        for i in 0..300u64 {
            rig.v.setxattr(f, format!("user.{}", i % 3).as_bytes(), &[round; 900], XattrMode::Set).unwrap();
            rig.v.unlink(Ino::ROOT, format!("n{i}").as_bytes()).ok();
            rig.file(&format!("n{i}"), &vec![round; 3000]);
        }
        rig.v.sync().unwrap();
    }
    assert!(rig.stat("checkpoints") > checkpoints);
    assert!(rig.stat("journal_bytes") > 20 << 20, "more than the ring went through it");
    rig.crash();
    assert_eq!(rig.content("n7"), [39; 3000]);
    rig.judge();
}

/// The two do not fit together, whichever is replayed first.
#[test]
fn attributes_that_replace_each_other_are_replayed() {
    for (old, new) in [(&b"user.z"[..], &b"user.a"[..]), (b"user.a", b"user.z")] {
        let mut rig = Rig::new();
        let f = rig.create("f");
        rig.v.setxattr(f, old, &[1; 3500], XattrMode::Set).unwrap();
        Probe(&rig.v).checkpoint().unwrap();
        rig.v.removexattr(f, old).unwrap();
        rig.v.setxattr(f, new, &[2; 3500], XattrMode::Set).unwrap();
        rig.v.sync().unwrap();
        rig.crash();
        assert_eq!(rig.v.listxattr(f).unwrap(), [new, b"\0"].concat());
        assert_eq!(rig.v.getxattr(f, new).unwrap(), [2; 3500]);
        rig.judge();
    }
}

/// Each change reverts the previous one: only the final state matters.
#[test]
fn changes_of_many_epochs_merge_to_the_final_state() {
    let mut rig = Rig::new();
    let v = rig.v.clone();
    let (owner, old) = (Owner::default(), rig.file("old", &[1; 20_000]));
    let d = v.mkdir(Ino::ROOT, b"d", 0o755, owner).unwrap().ino;
    Probe(&v).checkpoint().unwrap();
    let step = |f: &dyn Fn()| {
        f();
        v.sync().unwrap();
    };
    let rename = |a: (Ino, &[u8]), b: (Ino, &[u8])| {
        v.rename(a.0, a.1, b.0, b.1, RenameMode::Replace, owner).unwrap();
    };
    step(&|| rename((Ino::ROOT, b"old"), (d, b"moved")));
    step(&|| _ = v.link(old, Ino::ROOT, b"second").unwrap());
    step(&|| v.unlink(d, b"moved").unwrap());
    step(&|| _ = v.setattr(old, &SetAttr { size: Some(6000), ..SetAttr::default() }).unwrap());
    step(&|| _ = v.write(old, 12_288, &[3; 5000]).unwrap());
    step(&|| v.fallocate(old, FallocMode::PunchHole, 0, 4096).unwrap());
    // A file that outgrows its inode, and an inode that is created and deleted.
    let small = rig.create("small");
    step(&|| _ = v.write(small, 0, &[4; 100]).unwrap());
    step(&|| _ = v.setattr(small, &SetAttr { size: Some(50), ..SetAttr::default() }).unwrap());
    step(&|| _ = v.write(small, 60, &[5; 9000]).unwrap());
    step(&|| _ = rig.file("gone", &[6; 9000]));
    step(&|| rename((Ino::ROOT, b"gone"), (d, b"gone")));
    step(&|| v.unlink(d, b"gone").unwrap());
    let e = v.mkdir(d, b"e", 0o755, owner).unwrap().ino;
    step(&|| _ = v.setattr(e, &SetAttr { mode: Some(0o700), ..SetAttr::default() }).unwrap());
    step(&|| rename((d, b"e"), (Ino::ROOT, b"e")));
    step(&|| v.rmdir(Ino::ROOT, b"d").unwrap());
    let state = |rig: &Rig| {
        let v = &rig.v;
        let attr = |name: &str| {
            let a = v.lookup(Ino::ROOT, name.as_bytes()).unwrap();
            (a.ino, a.mode, a.nlink, a.size, a.blocks, a.mtime)
        };
        let mut names = Vec::new();
        v.readdir(Ino::ROOT, 0, &mut |e| {
            names.push(e.name.to_vec());
            true
        })
        .unwrap();
        names.sort();
        (["second", "small", "e"].map(attr), rig.content("second"), rig.content("small"), names)
    };
    let before = state(&rig);
    drop(v);
    rig.crash();
    assert_eq!(state(&rig), before);
    rig.judge();
    assert_eq!(state(&rig), before);
}

#[test]
fn an_fsync_does_not_write_data_of_other_files() {
    let mut rig = Rig::new();
    let other = rig.file("other", &[1; 100_000]);
    rig.v.sync().unwrap();
    assert_eq!(rig.v.write(other, 100_000, &[2; 400_000]).unwrap(), 400_000);
    rig.v.write(other, 0, &[3; 4096]).unwrap();
    rig.v.rename(Ino::ROOT, b"other", Ino::ROOT, b"renamed", RenameMode::Replace, Owner::default()).unwrap();
    let (dirty, written) = (rig.stat("dirty_data_pages"), rig.stat("data_blocks"));
    let mine = rig.file("mine", &[4; 5000]);
    rig.v.fsync(mine).unwrap();
    assert_eq!((rig.stat("dirty_data_pages"), rig.stat("data_blocks")), (dirty, written + 2));
    rig.crash();
    assert_eq!(rig.content("mine"), [4; 5000]);
    // Its new name is durable, and the part of it that was flushed.
    assert_eq!(rig.content("renamed"), [1; 100_000]);
    rig.judge();
    assert_eq!(rig.content("renamed"), [1; 100_000]);
}
