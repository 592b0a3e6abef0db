//! Single operations and their errors.
use super::*;
use segno_engine::SetAttr;
use segno_format::dentry::FileType;

const E: Features = Features::empty();

#[test]
fn every_kind_of_inode_is_created_as_requested() {
    for features in [E, Features::EXTRA_ATTR, ALL] {
        let mut rig = Rig::new(features);
        let owner = Owner { uid: 10, gid: 20, umask: 0o027 };
        let cases = [
            ("reg", 0o100_666, (0, 0), FileType::Regular),
            ("chr", 0o020_666, (5, 1), FileType::CharDevice),
            ("blk", 0o060_666, (259, 300), FileType::BlockDevice),
            ("fifo", 0o010_666, (0, 0), FileType::Fifo),
            ("sock", 0o140_666, (0, 0), FileType::Socket),
        ];
        for (name, mode, rdev, kind) in cases {
            let a = rig.v.mknod(ROOT, name.as_bytes(), mode, rdev, owner).unwrap();
            assert_eq!((a.kind, a.mode, a.rdev), (kind, mode & !0o027, rdev), "{name}");
            assert_eq!((a.uid, a.gid, a.nlink, a.size, a.blocks), (10, 20, 1, 0, 0), "{name}");
            assert_eq!(a.crtime.is_some(), features == ALL);
        }
        let a = rig.v.mkdir(ROOT, b"dir", 0o777, owner).unwrap();
        assert_eq!((a.kind, a.mode, a.nlink), (FileType::Directory, 0o040_750, 2));
        let a = rig.v.symlink(ROOT, b"sym", b"to/somewhere", owner).unwrap();
        assert_eq!((a.kind, a.mode, a.size), (FileType::Symlink, 0o120_777, 12));
        let before: Vec<Attr> = rig.list(ROOT).iter().map(|(_, ino)| rig.attr(*ino)).collect();
        assert_eq!(before.len(), 7);
        rig.remount();
        let after: Vec<Attr> = rig.list(ROOT).iter().map(|(_, ino)| rig.attr(*ino)).collect();
        assert_eq!(before, after);
        assert_eq!(rig.v.readlink(rig.lookup(ROOT, "sym")).unwrap(), b"to/somewhere");
        assert_eq!(rig.attr(ROOT).nlink, 3);
        rig.finish();
    }
}

#[test]
fn mount_options_determine_inline_storage() {
    let plain = MountOptions { inline_data: false, inline_dentry: false, inline_xattr: false, ..quiet() };
    for features in [E, ALL] {
        let mut rig = Rig::with(128, features, plain.clone());
        let d = rig.dir(ROOT, "d");
        assert_eq!((rig.attr(d).size, rig.attr(d).blocks), (4096, 8));
        let f = rig.file(d, "f");
        let s = rig.v.symlink(d, b"s", b"target", Owner::default()).unwrap().ino;
        assert_eq!(rig.attr(s).blocks, 8);
        rig.v.setxattr(f, b"user.a", b"v", segno_engine::XattrMode::Set).unwrap();
        assert_eq!(rig.attr(f).blocks, 8, "the xattr node");
        rig.remount();
        assert_eq!(rig.names(d), ["f", "s"]);
        assert_eq!(rig.v.readlink(s).unwrap(), b"target");
        assert_eq!(rig.v.getxattr(f, b"user.a").unwrap(), b"v");
        rig.finish();
    }
}

#[test]
fn inline_directories_and_files_are_counted_as_linux_does() {
    let rig = Rig::new(E);
    let d = rig.dir(ROOT, "d");
    assert_eq!((rig.attr(d).size, rig.attr(d).blocks), (3488, 7));
    let s = rig.v.symlink(ROOT, b"s", b"x", Owner::default()).unwrap();
    assert_eq!(s.blocks, 0);
    rig.finish();
}

#[test]
fn names_are_refused_with_the_errno_of_linux() {
    let rig = Rig::new(E);
    let (f, d) = (rig.file(ROOT, "f"), rig.dir(ROOT, "d"));
    rig.file(d, "inside");
    let o = Owner::default();
    let long = vec![b'n'; 256];
    for (name, expected) in [(&b""[..], 22), (b"a/b", 22), (b"a\0b", 22), (&long, 36)] {
        assert_eq!(errno(rig.v.mknod(ROOT, name, REG, (0, 0), o)), expected);
        assert_eq!(errno(rig.v.mkdir(ROOT, name, 0, o)), expected);
        assert_eq!(errno(rig.v.lookup(ROOT, name)), expected);
        assert_eq!(errno(rig.v.unlink(ROOT, name)), expected);
        assert_eq!(errno(rig.v.link(f, ROOT, name)), expected);
        assert_eq!(errno(rig.v.rename(ROOT, b"f", ROOT, name, RenameMode::Replace, o)), expected);
    }
    for name in [&b"f"[..], b"d", b".", b".."] {
        assert_eq!(errno(rig.v.mknod(ROOT, name, REG, (0, 0), o)), 17);
        assert_eq!(errno(rig.v.mkdir(ROOT, name, 0, o)), 17);
        assert_eq!(errno(rig.v.symlink(ROOT, name, b"t", o)), 17);
        assert_eq!(errno(rig.v.link(f, ROOT, name)), 17);
    }
    assert_eq!(errno(rig.v.lookup(f, b"x")), 20);
    assert_eq!(errno(rig.v.mknod(f, b"x", REG, (0, 0), o)), 20);
    assert_eq!(errno(rig.v.unlink(f, b"x")), 20);
    assert_eq!(errno(rig.v.readdir(f, 0, &mut |_| true)), 20);
    assert_eq!(errno(rig.v.lookup(ROOT, b"none")), 2);
    assert_eq!(errno(rig.v.unlink(ROOT, b"none")), 2);
    assert_eq!(errno(rig.v.rmdir(ROOT, b"none")), 2);
    assert_eq!(errno(rig.v.getattr(segno_format::Ino(4000))), 2);
    assert_eq!(errno(rig.v.getattr(segno_format::Ino(u32::MAX))), 2);
    assert_eq!(errno(rig.v.unlink(ROOT, b"d")), 21);
    assert_eq!(errno(rig.v.rmdir(ROOT, b"f")), 20);
    assert_eq!(errno(rig.v.rmdir(ROOT, b"d")), 39);
    assert_eq!(errno(rig.v.rmdir(d, b".")), 22);
    assert_eq!(errno(rig.v.rmdir(d, b"..")), 39);
    assert_eq!(errno(rig.v.link(d, ROOT, b"dd")), 1);
    assert_eq!(errno(rig.v.symlink(ROOT, b"s", b"", o)), 2);
    assert_eq!(errno(rig.v.symlink(ROOT, b"s", &[b't'; 4096], o)), 36);
    assert_eq!(errno(rig.v.mknod(ROOT, b"s", 0o040_755, (0, 0), o)), 1);
    assert_eq!(errno(rig.v.mknod(ROOT, b"s", 0o120_777, (0, 0), o)), 22);
    assert_eq!(errno(rig.v.readlink(f)), 22);
    assert_eq!(errno(rig.v.setattr(d, &SetAttr { size: Some(0), ..SetAttr::default() })), 21);
    assert_eq!(errno(rig.v.release(f)), 22);
    assert_eq!(rig.names(ROOT), ["d", "f"]);
    rig.finish();
}

#[test]
fn a_removed_directory_takes_no_more_names() {
    let rig = Rig::new(E);
    let d = rig.dir(ROOT, "d");
    rig.v.open(d).unwrap();
    rig.v.rmdir(ROOT, b"d").unwrap();
    assert_eq!(rig.attr(d).nlink, 0);
    let o = Owner::default();
    assert_eq!(errno(rig.v.mknod(d, b"x", REG, (0, 0), o)), 2);
    assert_eq!(errno(rig.v.mkdir(d, b"x", 0, o)), 2);
    assert_eq!(errno(rig.v.tmpfile(d, 0o600, o)), 2);
    assert_eq!(errno(rig.v.readdir(d, 0, &mut |_| true)), 2);
    let f = rig.file(ROOT, "f");
    assert_eq!(errno(rig.v.link(f, d, b"x")), 2);
    assert_eq!(errno(rig.mv((ROOT, "f"), (d, "x"), RenameMode::Replace)), 2);
    rig.v.release(d).unwrap();
    assert_eq!(errno(rig.v.getattr(d)), 2);
    rig.finish();
}

#[test]
fn a_read_only_volume_refuses_every_change() {
    let rig = Rig::new(E);
    rig.file(ROOT, "f");
    let dev = rig.dev.clone();
    rig.finish();
    let v = Volume::mount(dev, MountOptions { read_only: true, ..quiet() }).unwrap();
    let (o, f) = (Owner::default(), v.lookup(ROOT, b"f").unwrap().ino);
    assert_eq!(errno(v.mknod(ROOT, b"x", REG, (0, 0), o)), 30);
    assert_eq!(errno(v.mkdir(ROOT, b"x", 0, o)), 30);
    assert_eq!(errno(v.symlink(ROOT, b"x", b"t", o)), 30);
    assert_eq!(errno(v.tmpfile(ROOT, 0, o)), 30);
    assert_eq!(errno(v.link(f, ROOT, b"x")), 30);
    assert_eq!(errno(v.unlink(ROOT, b"f")), 30);
    assert_eq!(errno(v.rename(ROOT, b"f", ROOT, b"g", RenameMode::Replace, o)), 30);
    assert_eq!(errno(v.setattr(f, &SetAttr::default())), 30);
    assert_eq!(errno(v.setxattr(f, b"user.a", b"", segno_engine::XattrMode::Set)), 30);
    assert_eq!(errno(v.set_flags(f, segno_format::inode::InodeFlags::NODUMP)), 30);
    v.open(f).unwrap();
    v.release(f).unwrap();
}

#[test]
fn setgid_directories_pass_on_group_and_bit() {
    let rig = Rig::new(ALL);
    let d = rig.v.mkdir(ROOT, b"d", 0o2775, Owner { uid: 1, gid: 77, umask: 0 }).unwrap().ino;
    let o = Owner { uid: 5, gid: 6, umask: 0o022 };
    let f = rig.v.mknod(d, b"f", REG | 0o666, (0, 0), o).unwrap();
    assert_eq!((f.uid, f.gid, f.mode), (5, 77, 0o100_644));
    let s = rig.v.mkdir(d, b"s", 0o777, o).unwrap();
    assert_eq!((s.uid, s.gid, s.mode), (5, 77, 0o042_755));
    rig.finish();
}

#[test]
fn setattr_changes_only_requested_attributes() {
    let mut rig = Rig::ticking();
    let f = rig.file(ROOT, "f");
    let t = |secs| Some(Time { secs, nsec: 999_999_999 });
    let set = SetAttr {
        mode: Some(0o6755),
        uid: Some(u32::MAX - 1),
        gid: Some(9),
        atime: t(-5),
        mtime: t(1 << 40),
        ..SetAttr::default()
    };
    let before = rig.attr(f);
    let a = rig.v.setattr(f, &set).unwrap();
    assert_eq!((a.mode, a.uid, a.gid), (0o106_755, u32::MAX - 1, 9));
    assert_eq!((Some(a.atime), Some(a.mtime)), (t(-5), t(1 << 40)));
    assert!(a.ctime > before.ctime);
    let killed = rig.v.setattr(f, &SetAttr { kill_suidgid: true, ..SetAttr::default() }).unwrap();
    assert_eq!(killed.mode, 0o100_755);
    let locking = SetAttr { mode: Some(0o2744), ..SetAttr::default() };
    rig.v.setattr(f, &locking).unwrap();
    let kept = rig.v.setattr(f, &SetAttr { kill_suidgid: true, ..SetAttr::default() }).unwrap();
    assert_eq!(kept.mode, 0o102_744);
    let stranger = SetAttr { kill_suidgid: true, kill_sgid: true, ..SetAttr::default() };
    assert_eq!(rig.v.setattr(f, &stranger).unwrap().mode, 0o100_744);
    let kept = rig.v.setattr(f, &locking).unwrap();
    let sized = rig.v.setattr(f, &SetAttr { size: Some(10_000), ..SetAttr::default() }).unwrap();
    assert_eq!(sized.size, 10_000);
    assert!(sized.mtime < a.mtime && sized.ctime > kept.ctime);
    let ctime = rig.v.setattr(f, &SetAttr { ctime: t(3), ..SetAttr::default() }).unwrap().ctime;
    assert_eq!(Some(ctime), t(3));
    let last = rig.attr(f);
    rig.remount();
    assert_eq!(rig.attr(f), last);
    rig.finish();
}

#[test]
fn extensions_decide_the_temperature_of_new_files() {
    let rig = Rig::new(E);
    let advise = |name: &str| rig.v.getxattr(rig.file(ROOT, name), b"system.advise").unwrap();
    assert_eq!(advise("a.MP4"), [1]);
    assert_eq!(advise("a.db"), [0x20]);
    assert_eq!(advise("a.txt"), [0]);
    let d = rig.dir(ROOT, "d.mp4");
    assert_eq!(rig.v.getxattr(d, b"system.advise").unwrap(), [0]);
    rig.finish();
}

#[test]
fn long_symlinks_survive_remounting() {
    for features in [E, ALL] {
        let mut rig = Rig::new(features);
        for len in [1, 3451, 3452, 3453, 3488, 3489, 4095] {
            let target = vec![b'a' + (len % 26) as u8; len];
            let a = rig.v.symlink(ROOT, format!("s{len}").as_bytes(), &target, Owner::default()).unwrap();
            assert_eq!(a.size, len as u64);
        }
        rig.remount();
        for (_, ino) in rig.list(ROOT) {
            let target = rig.v.readlink(ino).unwrap();
            let len = target.len();
            assert_eq!(len as u64, rig.attr(ino).size);
            assert!(target.iter().all(|&b| b == b'a' + (len % 26) as u8));
        }
        rig.finish();
    }
}

#[test]
fn listing_resumes_at_its_position_while_names_change() {
    let rig = Rig::new(E);
    let d = rig.dir(ROOT, "d");
    let f = rig.file(ROOT, "f");
    let name = |i: u32| format!("name-{i:04}");
    for i in 0..900 {
        rig.v.link(f, d, name(i).as_bytes()).unwrap();
    }
    let (mut pos, mut seen) = (0, Vec::new());
    loop {
        let mut batch = Vec::new();
        rig.v
            .readdir(d, pos, &mut |e| {
                if batch.len() == 7 {
                    return false;
                }
                batch.push((String::from_utf8(e.name.to_vec()).unwrap(), e.next));
                true
            })
            .unwrap();
        let Some(last) = batch.last() else { break };
        pos = last.1;
        for (n, _) in batch {
            // Every second name is removed after it was listed; others are added throughout.
            if let Some(i) = n.strip_prefix("name-").and_then(|i| i.parse::<u32>().ok()) {
                if i % 2 == 0 {
                    rig.v.unlink(d, n.as_bytes()).unwrap();
                    rig.v.link(f, d, format!("new-{i}").as_bytes()).unwrap();
                }
                seen.push(i);
            }
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..900).collect::<Vec<_>>(), "each unchanged name is listed once");
    rig.finish();
}

#[test]
fn converting_an_inline_directory_keeps_positions() {
    for features in [E, ALL] {
        let mut rig = Rig::new(features);
        let d = rig.dir(ROOT, "d");
        let mut made = Vec::new();
        let mut positions = Vec::new();
        while rig.attr(d).size < 4096 {
            positions.clear();
            rig.v
                .readdir(d, 0, &mut |e| {
                    positions.push((e.name.to_vec(), e.next));
                    true
                })
                .unwrap();
            let name = format!("f{}", made.len());
            rig.file(d, &name);
            made.push(name);
        }
        assert!(made.len() > 170, "{}", made.len());
        let mut after = Vec::new();
        rig.v
            .readdir(d, 0, &mut |e| {
                after.push((e.name.to_vec(), e.next));
                true
            })
            .unwrap();
        assert_eq!(after[..positions.len()], positions);
        rig.remount();
        made.sort();
        assert_eq!(rig.names(d), made);
        for name in &made {
            rig.v.unlink(d, name.as_bytes()).unwrap();
        }
        rig.v.rmdir(ROOT, b"d").unwrap();
        rig.finish();
    }
}

#[test]
fn emptied_blocks_are_freed() {
    let rig = Rig::new(E);
    let (d, f) = (rig.dir(ROOT, "d"), rig.file(ROOT, "f"));
    for i in 0..2000 {
        rig.v.link(f, d, format!("a-rather-long-name-{i}").as_bytes()).unwrap();
    }
    let full = rig.attr(d);
    for i in 0..2000 {
        rig.v.unlink(d, format!("a-rather-long-name-{i}").as_bytes()).unwrap();
    }
    let empty = rig.attr(d);
    assert!(full.blocks > 8 * 20, "{}", full.blocks);
    assert_eq!((empty.size, empty.blocks), (full.size, 8));
    rig.finish();
}

#[test]
fn create_counts_as_an_open() {
    let rig = Rig::new(E);
    let a = rig.v.create(ROOT, b"f", 0o600, Owner::default()).unwrap();
    rig.v.unlink(ROOT, b"f").unwrap();
    assert_eq!(rig.attr(a.ino).nlink, 0);
    rig.v.release(a.ino).unwrap();
    assert_eq!(errno(rig.v.getattr(a.ino)), 2);
    rig.finish();
}
