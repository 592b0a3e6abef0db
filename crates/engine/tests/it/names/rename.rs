//! rename(2) in all its modes.
use super::*;
use RenameMode::{Exchange, NoReplace, Replace, Whiteout};
use segno_format::dentry::FileType;

#[test]
fn every_pair_of_kinds_gives_the_errno_of_linux() {
    // (source is a directory, target, errno or 0); target: none, file, empty directory, full directory.
    let cases = [
        (false, "none", 0),
        (false, "file", 0),
        (false, "empty", 21),
        (false, "full", 21),
        (true, "none", 0),
        (true, "file", 20),
        (true, "empty", 0),
        (true, "full", 39),
    ];
    for across in [false, true] {
        let mut rig = Rig::new(Features::empty());
        for (i, (is_dir, target, expected)) in cases.into_iter().enumerate() {
            let from = rig.dir(ROOT, &format!("from{i}"));
            let to = if across { rig.dir(ROOT, &format!("to{i}")) } else { from };
            let source = if is_dir { rig.dir(from, "source") } else { rig.file(from, "source") };
            match target {
                "file" => _ = rig.file(to, "target"),
                "empty" => _ = rig.dir(to, "target"),
                "full" => _ = rig.file(rig.dir(to, "target"), "x"),
                _ => {}
            }
            let before = rig.v.lookup(to, b"target").ok();
            let got = rig.mv((from, "source"), (to, "target"), Replace).map_or_else(|e| e.errno(), |()| 0);
            assert_eq!(got, expected, "directory {is_dir} over {target}, across {across}");
            if expected == 0 {
                assert_eq!(rig.lookup(to, "target"), source);
                assert_eq!(errno(rig.v.lookup(from, b"source")), 2);
                assert!(before.is_none_or(|t| rig.v.getattr(t.ino).is_err()), "the target is freed");
            } else {
                assert_eq!(rig.lookup(from, "source"), source);
                assert_eq!(rig.v.lookup(to, b"target").ok(), before);
            }
        }
        rig.remount();
        rig.finish();
    }
}

#[test]
fn noreplace_and_exchange() {
    let rig = Rig::new(ALL);
    let (a, b) = (rig.file(ROOT, "a"), rig.dir(ROOT, "b"));
    assert_eq!(errno(rig.mv((ROOT, "a"), (ROOT, "b"), NoReplace)), 17);
    assert_eq!(errno(rig.mv((ROOT, "a"), (ROOT, "a"), NoReplace)), 17);
    rig.mv((ROOT, "a"), (ROOT, "c"), NoReplace).unwrap();
    assert_eq!(errno(rig.mv((ROOT, "c"), (ROOT, "none"), Exchange)), 2);
    assert_eq!(errno(rig.mv((ROOT, "none"), (ROOT, "c"), Exchange)), 2);
    rig.mv((ROOT, "c"), (ROOT, "b"), Exchange).unwrap();
    assert_eq!((rig.lookup(ROOT, "b"), rig.lookup(ROOT, "c")), (a, b));
    rig.mv((ROOT, "b"), (ROOT, "b"), Exchange).unwrap();
    let x = rig.file(b, "x");
    rig.mv((b, "x"), (ROOT, "b"), Exchange).unwrap();
    assert_eq!((rig.lookup(ROOT, "b"), rig.lookup(b, "x")), (x, a));
    rig.finish();
}

#[test]
fn renaming_a_link_onto_another_of_the_same_inode_keeps_both() {
    let rig = Rig::new(Features::empty());
    let f = rig.file(ROOT, "a");
    rig.v.link(f, ROOT, b"b").unwrap();
    rig.mv((ROOT, "a"), (ROOT, "b"), Replace).unwrap();
    rig.mv((ROOT, "a"), (ROOT, "a"), Replace).unwrap();
    assert_eq!(rig.names(ROOT), ["a", "b"]);
    assert_eq!(rig.attr(f).nlink, 2);
    rig.finish();
}

#[test]
fn a_directory_cannot_move_below_itself() {
    let rig = Rig::new(Features::empty());
    let a = rig.dir(ROOT, "a");
    let b = rig.dir(a, "b");
    let c = rig.dir(b, "c");
    for mode in [Replace, NoReplace, Whiteout] {
        assert_eq!(errno(rig.mv((ROOT, "a"), (a, "x"), mode)), 22);
        assert_eq!(errno(rig.mv((ROOT, "a"), (c, "x"), mode)), 22);
    }
    rig.file(c, "f");
    assert_eq!(errno(rig.mv((ROOT, "a"), (c, "f"), Exchange)), 22);
    assert_eq!(errno(rig.mv((c, "f"), (ROOT, "a"), Exchange)), 22);
    assert_eq!(errno(rig.mv((b, "c"), (ROOT, "a"), Replace)), 39);
    assert_eq!(errno(rig.mv((c, "f"), (ROOT, "a"), Replace)), 21);
    for (old, new) in [(".", "x"), ("..", "x"), ("b", "."), ("b", "..")] {
        assert_eq!(errno(rig.mv((a, old), (a, new), Replace)), 16);
    }
    assert_eq!((rig.lookup(ROOT, "a"), rig.lookup(a, "b"), rig.lookup(b, "c")), (a, b, c));
    rig.finish();
}

#[test]
fn a_whiteout_is_left_behind() {
    let mut rig = Rig::new(ALL);
    let d = rig.dir(ROOT, "d");
    let f = rig.file(ROOT, "f");
    rig.file(d, "g");
    let owner = Owner { uid: 7, gid: 8, umask: 0o777 };
    rig.v.rename(ROOT, b"f", d, b"f", Whiteout, owner).unwrap();
    assert_eq!(rig.lookup(d, "f"), f);
    let w = rig.v.lookup(ROOT, b"f").unwrap();
    assert_eq!((w.kind, w.mode, w.rdev, w.nlink), (FileType::CharDevice, 0o020_000, (0, 0), 1));
    assert_eq!((w.uid, w.gid), (7, 8));
    rig.v.rename(d, b"f", d, b"g", Whiteout, owner).unwrap();
    assert_eq!(rig.lookup(d, "g"), f);
    rig.v.rename(ROOT, b"d", ROOT, b"e", Whiteout, owner).unwrap();
    assert_eq!((rig.lookup(ROOT, "e"), rig.attr(ROOT).nlink), (d, 3));
    rig.remount();
    assert_eq!(rig.names(ROOT), ["d", "e", "f"]);
    rig.finish();
}

#[test]
fn a_name_that_no_longer_fits_inline_converts_first() {
    let mut rig = Rig::new(ALL);
    let d = rig.dir(ROOT, "d");
    let mut n = 0;
    while rig.attr(d).size < 4096 {
        n += 1;
        rig.file(d, &format!("{n}"));
        if n == 170 {
            rig.mv((d, "170"), (d, &"x".repeat(255)), Replace).unwrap();
        }
    }
    assert_eq!(n, 170, "the long name made it convert");
    rig.remount();
    assert_eq!(rig.list(d).len(), 170);
    rig.finish();
}

#[test]
fn an_open_target_is_kept() {
    let rig = Rig::new(Features::empty());
    let (a, b) = (rig.file(ROOT, "a"), rig.file(ROOT, "b"));
    rig.v.open(b).unwrap();
    rig.mv((ROOT, "a"), (ROOT, "b"), Replace).unwrap();
    assert_eq!((rig.lookup(ROOT, "b"), rig.attr(b).nlink), (a, 0));
    rig.v.release(b).unwrap();
    assert_eq!(errno(rig.v.getattr(b)), 2);
    rig.finish();
}
