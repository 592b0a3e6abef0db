//! Inode flags and projects.
use super::*;
use segno_engine::options::JournalMode;
use segno_engine::{DirEntry, SetAttr, XattrMode};
use segno_format::inode::InodeFlags;

const SHOWN_INLINE: u32 = 0x1000_0000;

#[test]
fn flags_are_set_by_kind_and_unknown_ones_refused() {
    let mut rig = Rig::with_projects();
    let (f, d) = (rig.file(ROOT, "f"), rig.dir(ROOT, "d"));
    let p = rig.v.mknod(ROOT, b"p", 0o010_600, (0, 0), Owner::default()).unwrap().ino;
    // Besides +c, +i and +a; then read-only flags of FS_IOC_GETFLAGS: index, encrypted, verity, pinned, inline data.
    let settable = [(f, 0x4C8), (d, 0x6001_04C8), (p, 0xC0)];
    let (others, shown) = (0x34, 0x1090_1800);
    for (i, mine) in settable {
        rig.v.set_flags(i, InodeFlags::from_bits_retain(mine | shown)).unwrap();
        for bit in (0..32).map(|n| 1 << n).filter(|bit| (mine | shown | others) & bit == 0) {
            let flags = InodeFlags::from_bits_retain(mine | bit);
            assert_eq!(errno(rig.v.set_flags(i, flags)), 95, "{bit:#x}");
        }
    }
    assert_eq!(errno(rig.v.set_flags(p, InodeFlags::IMMUTABLE)), 95);
    rig.remount();
    let get = |i| rig.v.get_flags(i).unwrap().bits() & !SHOWN_INLINE;
    assert_eq!((get(f), get(d), get(p)), (0x4C8, 0x6001_14C8, 0xC0));
    rig.v.set_flags(d, InodeFlags::empty()).unwrap();
    assert_eq!(rig.v.get_flags(d).unwrap().bits(), 0x1000 | SHOWN_INLINE);
    rig.finish();
}

#[test]
fn flags_that_need_features_or_state_are_refused() {
    let plain = Rig::new(Features::empty());
    let d = plain.dir(ROOT, "d");
    assert_eq!(errno(plain.v.set_flags(d, InodeFlags::CASEFOLD)), 95);
    assert_eq!(errno(plain.v.set_flags(d, InodeFlags::COMPR)), 95);
    assert_eq!(errno(plain.v.set_projid(d, 5)), 95);
    plain.v.set_projid(d, 0).unwrap();
    plain.finish();
    let rig = Rig::new(ALL);
    let d = rig.dir(ROOT, "d");
    let f = rig.file(d, "f");
    assert_eq!(errno(rig.v.set_flags(d, InodeFlags::CASEFOLD)), 39);
    assert_eq!(errno(rig.v.set_flags(d, InodeFlags::COMPR | InodeFlags::NOCOMP)), 22);
    rig.v.write(f, 0, b"data").unwrap();
    assert_eq!(errno(rig.v.set_flags(f, InodeFlags::COMPR)), 22);
    rig.finish();
}

#[test]
fn flags_are_inherited() {
    let mut rig = Rig::with_projects();
    let d = rig.dir(ROOT, "d");
    let flags = InodeFlags::COMPR | InodeFlags::NODUMP | InodeFlags::SYNC | InodeFlags::PROJINHERIT;
    rig.v.set_flags(d, flags).unwrap();
    rig.v.set_projid(d, 42).unwrap();
    let (f, s) = (rig.file(d, "f"), rig.dir(d, "s"));
    assert_eq!(rig.attr(f).flags, InodeFlags::COMPR | InodeFlags::NODUMP | InodeFlags::SYNC);
    assert_eq!(rig.attr(s).flags, flags | InodeFlags::INDEX);
    assert_eq!((rig.attr(f).projid, rig.attr(s).projid), (42, 42));
    let other = rig.file(ROOT, "other");
    assert_eq!(errno(rig.v.link(other, d, b"x")), 18);
    assert_eq!(errno(rig.mv((ROOT, "other"), (d, "x"), RenameMode::Replace)), 18);
    assert_eq!(errno(rig.mv((ROOT, "other"), (d, "f"), RenameMode::Exchange)), 18);
    rig.v.set_projid(other, 42).unwrap();
    rig.mv((ROOT, "other"), (d, "x"), RenameMode::Replace).unwrap();
    rig.remount();
    assert_eq!(rig.attr(other).projid, 42);
    rig.finish();
}

#[test]
fn immutable_and_append_only_inodes_refuse_changes() {
    for flag in [InodeFlags::IMMUTABLE, InodeFlags::APPEND] {
        let append = flag == InodeFlags::APPEND;
        let mut rig = Rig::new(Features::empty());
        let d = rig.dir(ROOT, "d");
        let (f, sub) = (rig.file(d, "f"), rig.dir(d, "sub"));
        let full = rig.dir(d, "full");
        rig.file(full, "x");
        rig.v.set_flags(d, flag).unwrap();
        rig.remount();
        let o = Owner::default();
        let may_add = if append { 0 } else { 1 };
        let code = |r: Result<()>| r.map_or_else(|e| e.errno(), |()| 0);
        assert_eq!(code(rig.v.mknod(d, b"x", REG, (0, 0), o).map(drop)), may_add);
        assert_eq!(code(rig.v.mkdir(d, b"y", 0, o).map(drop)), may_add);
        assert_eq!(code(rig.v.link(f, d, b"z").map(drop)), may_add);
        assert_eq!(code(rig.v.tmpfile(d, 0, o).and_then(|a| rig.v.release(a.ino))), may_add);
        assert_eq!(errno(rig.v.unlink(d, b"f")), 1);
        assert_eq!(errno(rig.v.rmdir(d, b"sub")), 1);
        assert_eq!(errno(rig.v.rmdir(d, b"full")), 1);
        assert_eq!(errno(rig.v.rmdir(d, b"none")), 2);
        assert_eq!(errno(rig.mv((d, "f"), (ROOT, "f"), RenameMode::Replace)), 1);
        assert_eq!(errno(rig.mv((ROOT, "d"), (ROOT, "e"), RenameMode::Replace)), 1);
        assert_eq!(errno(rig.v.rmdir(ROOT, b"d")), 1);
        rig.dir(ROOT, "other");
        assert_eq!(errno(rig.mv((ROOT, "other"), (d, "full"), RenameMode::Replace)), 1);
        assert_eq!(errno(rig.mv((ROOT, "other"), (d, "f"), RenameMode::Replace)), 1);
        rig.file(ROOT, "g");
        assert_eq!(errno(rig.mv((ROOT, "g"), (d, "f"), RenameMode::Replace)), 1);
        assert_eq!(errno(rig.mv((ROOT, "g"), (d, "f"), RenameMode::Exchange)), 1);
        assert_eq!(errno(rig.v.setxattr(d, b"user.a", b"", XattrMode::Set)), 1);
        for set in
            [SetAttr { mode: Some(0), ..SetAttr::default() }, SetAttr { uid: Some(0), ..SetAttr::default() }]
        {
            assert_eq!(errno(rig.v.setattr(d, &set)), 1);
        }
        let g = rig.lookup(ROOT, "g");
        rig.v.set_flags(g, flag).unwrap();
        assert_eq!(errno(rig.v.unlink(ROOT, b"g")), 1);
        assert_eq!(errno(rig.v.link(g, ROOT, b"h")), 1);
        assert_eq!(errno(rig.v.setattr(g, &SetAttr { size: Some(0), ..SetAttr::default() })), 1);
        assert_eq!(errno(rig.mv((sub, "none"), (ROOT, "g"), RenameMode::Replace)), 2);
        for i in [d, g] {
            rig.v.set_flags(i, InodeFlags::empty()).unwrap();
        }
        rig.v.unlink(ROOT, b"g").unwrap();
        rig.v.unlink(d, b"f").unwrap();
        rig.finish();
    }
}

#[test]
fn times_and_privileges_of_flagged_inodes() {
    let rig = Rig::new(Features::empty());
    let f = rig.file(ROOT, "f");
    rig.v.setattr(f, &SetAttr { mode: Some(0o4755), ..SetAttr::default() }).unwrap();
    let t = Time { secs: 7, nsec: 0 };
    let explicit = SetAttr { atime: Some(t), mtime: Some(t), ..SetAttr::default() };
    let one = SetAttr { mtime: Some(t), ..SetAttr::default() };
    let touch = SetAttr { touch: true, ..explicit };
    let kill = SetAttr { kill_suidgid: true, ..SetAttr::default() };
    rig.v.set_flags(f, InodeFlags::IMMUTABLE).unwrap();
    for set in [&explicit, &one, &touch, &kill] {
        assert_eq!(errno(rig.v.setattr(f, set)), 1, "{set:?}");
    }
    assert_eq!(rig.attr(f).mode, 0o104_755);
    rig.v.set_flags(f, InodeFlags::APPEND).unwrap();
    assert_eq!(errno(rig.v.setattr(f, &explicit)), 1);
    assert_eq!(errno(rig.v.setattr(f, &one)), 1);
    assert_eq!(rig.v.setattr(f, &touch).unwrap().mtime, t);
    assert_eq!(rig.v.setattr(f, &kill).unwrap().mode, 0o100_755);
    rig.finish();
}

/// `-o dirsync`, and `-o sync`.
#[test]
fn on_a_dirsync_mount_every_change_of_names_is_durable() {
    for journal in [JournalMode::Off, JournalMode::On] {
        let dev = fresh(64, &MkfsOptions { gap_blocks: 1024, ..MkfsOptions::default() });
        let options =
            || MountOptions { journal: journal.clone(), background: false, ..MountOptions::default() };
        let v = Volume::mount(dev.clone(), MountOptions { dirsync: true, ..options() }).unwrap();
        // The names of the root after a power cut now.
        let durable = || {
            let copy = Arc::new(MemDevice::from_snapshot(&dev.snapshot()));
            let after = Volume::mount(copy, options()).unwrap();
            let mut names = Vec::new();
            let mut each = |e: DirEntry<'_>| {
                names.push(String::from_utf8_lossy(e.name).into_owned());
                true
            };
            after.readdir(ROOT, 0, &mut each).unwrap();
            names.retain(|n| !n.starts_with('.'));
            names.sort();
            names.join(" ")
        };
        let owner = Owner::default();
        let f = v.mknod(ROOT, b"f", 0o100_644, (0, 0), owner).unwrap().ino;
        assert_eq!(durable(), "f");
        v.mkdir(ROOT, b"d", 0o755, owner).unwrap();
        assert_eq!(durable(), "d f");
        v.symlink(ROOT, b"s", b"target", owner).unwrap();
        assert_eq!(durable(), "d f s");
        v.link(f, ROOT, b"l").unwrap();
        assert_eq!(durable(), "d f l s");
        v.rename(ROOT, b"l", ROOT, b"r", RenameMode::Replace, owner).unwrap();
        assert_eq!(durable(), "d f r s");
        v.unlink(ROOT, b"f").unwrap();
        assert_eq!(durable(), "d r s");
        v.rmdir(ROOT, b"d").unwrap();
        assert_eq!(durable(), "r s");
    }
}

#[test]
fn a_dirsync_directory_is_durable_after_every_change() {
    let rig = Rig::new(Features::empty());
    let d = rig.dir(ROOT, "d");
    rig.v.set_flags(d, InodeFlags::DIRSYNC).unwrap();
    rig.file(d, "f");
    let copy = Arc::new(MemDevice::from_snapshot(&rig.dev.snapshot()));
    let v = mount(&copy);
    v.lookup(v.lookup(ROOT, b"d").unwrap().ino, b"f").unwrap();
    rig.mv((d, "f"), (ROOT, "g"), RenameMode::Replace).unwrap();
    let v = mount(&Arc::new(MemDevice::from_snapshot(&rig.dev.snapshot())));
    v.lookup(ROOT, b"g").unwrap();
    rig.finish();
}
