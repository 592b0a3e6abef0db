//! Link counts, and times of inodes and parents, after every operation on names.
use super::*;
use segno_engine::{SetAttr, XattrMode};

/// The times of an inode.
fn stamps(rig: &Rig, ino: Ino) -> (Time, Time, Time) {
    let a = rig.attr(ino);
    (a.atime, a.mtime, a.ctime)
}

/// Runs `f`, and checks which of the inodes got a new mtime and which a new ctime.
#[track_caller]
fn moves(rig: &Rig, what: &[(Ino, bool, bool)], f: impl FnOnce()) {
    let before: Vec<_> = what.iter().map(|(i, ..)| stamps(rig, *i)).collect();
    f();
    for ((ino, mtime, ctime), b) in what.iter().zip(before) {
        let a = stamps(rig, *ino);
        assert_eq!((a.1 > b.1, a.2 > b.2), (*mtime, *ctime), "mtime and ctime of inode {ino}");
        assert_eq!(a.0, b.0, "atime of inode {ino}");
    }
}

#[test]
fn times_follow_every_operation() {
    let rig = Rig::ticking();
    let (a, b) = (rig.dir(ROOT, "a"), rig.dir(ROOT, "b"));
    let o = Owner::default();
    let f = rig.file(a, "f");
    let g = rig.file(a, "g");
    let (parent, changed, same) = ((a, true, true), (f, false, true), (f, false, false));
    moves(&rig, &[parent], || _ = rig.file(a, "x"));
    moves(&rig, &[parent], || _ = rig.dir(a, "d"));
    moves(&rig, &[parent], || _ = rig.v.symlink(a, b"s", b"t", o).unwrap());
    moves(&rig, &[parent, changed], || _ = rig.v.link(f, a, b"l").unwrap());
    moves(&rig, &[parent, changed], || rig.v.unlink(a, b"l").unwrap());
    moves(&rig, &[parent], || rig.v.rmdir(a, b"d").unwrap());
    moves(&rig, &[parent, changed], || rig.mv((a, "f"), (a, "f2"), RenameMode::Replace).unwrap());
    moves(&rig, &[parent, (b, true, true), changed], || {
        rig.mv((a, "f2"), (b, "f"), RenameMode::Replace).unwrap();
    });
    rig.v.link(g, ROOT, b"g").unwrap();
    moves(&rig, &[parent, (b, true, true), changed, (g, false, true)], || {
        rig.mv((b, "f"), (a, "g"), RenameMode::Replace).unwrap();
    });
    moves(&rig, &[parent, (ROOT, true, true), changed, (g, false, true)], || {
        rig.mv((ROOT, "g"), (a, "g"), RenameMode::Exchange).unwrap();
    });
    moves(&rig, &[changed], || rig.v.setxattr(f, b"user.x", b"1", XattrMode::Set).unwrap());
    moves(&rig, &[changed], || rig.v.removexattr(f, b"user.x").unwrap());
    moves(&rig, &[changed], || {
        _ = rig.v.setattr(f, &SetAttr { mode: Some(0), ..SetAttr::default() }).unwrap()
    });
    moves(&rig, &[(f, true, true)], || {
        _ = rig.v.setattr(f, &SetAttr { size: Some(0), ..SetAttr::default() }).unwrap();
    });
    moves(&rig, &[(a, false, false), same], || {
        assert_eq!(errno(rig.v.link(f, a, b"g")), 17);
        assert_eq!(errno(rig.v.unlink(a, b"none")), 2);
        assert_eq!(errno(rig.mv((a, "none"), (a, "g"), RenameMode::Replace)), 2);
        rig.lookup(a, "g");
        rig.names(a);
    });
    rig.finish();
}

#[test]
fn link_counts_follow_every_operation() {
    let rig = Rig::new(Features::empty());
    let nlink = |ino| rig.attr(ino).nlink;
    let (a, b) = (rig.dir(ROOT, "a"), rig.dir(ROOT, "b"));
    let (d, f) = (rig.dir(a, "d"), rig.file(a, "f"));
    assert_eq!((nlink(ROOT), nlink(a), nlink(b), nlink(d), nlink(f)), (4, 3, 2, 2, 1));
    rig.mv((a, "d"), (b, "d"), RenameMode::Replace).unwrap();
    assert_eq!((nlink(a), nlink(b), nlink(d)), (2, 3, 2));
    assert_eq!(rig.lookup(d, ".."), b);
    rig.mv((a, "f"), (b, "d"), RenameMode::Exchange).unwrap();
    assert_eq!((nlink(a), nlink(b), nlink(d), nlink(f)), (3, 2, 2, 1));
    assert_eq!(rig.lookup(d, ".."), a);
    let e = rig.dir(b, "e");
    rig.mv((a, "f"), (b, "e"), RenameMode::Exchange).unwrap();
    assert_eq!((nlink(a), nlink(b), rig.lookup(d, ".."), rig.lookup(e, "..")), (3, 3, b, a));
    rig.mv((a, "f"), (b, "e"), RenameMode::Replace).unwrap();
    assert_eq!((nlink(a), nlink(b), rig.lookup(e, "..")), (2, 3, b));
    assert_eq!(errno(rig.v.getattr(d)), 2);
    rig.mv((b, "e"), (b, "e2"), RenameMode::Replace).unwrap();
    assert_eq!((nlink(a), nlink(b), rig.lookup(e, "..")), (2, 3, b));
    let h = rig.dir(b, "h");
    rig.mv((b, "e2"), (b, "h"), RenameMode::Replace).unwrap();
    assert_eq!((nlink(b), errno(rig.v.getattr(h))), (3, 2));
    rig.finish();
}
