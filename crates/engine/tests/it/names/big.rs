//! Very large directories and link counts.
use super::*;

/// 200,000 names in one directory. They link to a few files, because only the directory is under test.
#[test]
fn two_hundred_thousand_names() {
    const NAMES: u32 = 200_000;
    let mut rig = Rig::with(512, Features::empty(), quiet());
    let d = rig.dir(ROOT, "d");
    let files: Vec<Ino> = (0..8).map(|i| rig.file(ROOT, &format!("f{i}"))).collect();
    let name = |i: u32| format!("file-{i:06}.dat");
    let file = |i: u32| files[i as usize % files.len()];
    for i in 0..NAMES {
        rig.v.link(file(i), d, name(i).as_bytes()).unwrap();
    }
    rig.remount();
    for i in 0..NAMES {
        assert_eq!(rig.lookup(d, &name(i)), file(i), "{i}");
    }
    for i in NAMES..NAMES + 1000 {
        assert_eq!(errno(rig.v.lookup(d, name(i).as_bytes())), 2);
    }
    let listed = rig.list(d);
    assert_eq!(listed.len(), NAMES as usize);
    assert!(listed.iter().zip(0..).all(|((n, ino), i)| *n == name(i) && *ino == file(i)));
    assert_eq!(errno(rig.v.rmdir(ROOT, b"d")), 39);
    for i in 0..NAMES {
        rig.v.unlink(d, name(i).as_bytes()).unwrap();
    }
    assert_eq!(rig.attr(files[0]).nlink, 1);
    assert_eq!(rig.names(d), [""; 0]);
    rig.v.rmdir(ROOT, b"d").unwrap();
    rig.remount();
    assert_eq!(rig.list(ROOT).len(), 8);
    rig.finish();
}

#[test]
fn ten_thousand_links_and_longest_names() {
    let mut rig = Rig::new(Features::empty());
    let f = rig.file(ROOT, "f");
    let d = rig.dir(ROOT, "d");
    for i in 0..10_000 {
        assert_eq!(rig.v.link(f, d, format!("{i:0255}").as_bytes()).unwrap().nlink, i + 2);
    }
    rig.remount();
    assert_eq!(rig.attr(f).nlink, 10_001);
    for i in (0..10_000).rev() {
        rig.v.unlink(d, format!("{i:0255}").as_bytes()).unwrap();
    }
    assert_eq!(rig.attr(f).nlink, 1);
    rig.finish();
}

#[test]
fn directories_nest_a_thousand_deep() {
    let mut rig = Rig::new(Features::empty());
    let mut d = ROOT;
    for _ in 0..1000 {
        d = rig.dir(d, "deeper");
    }
    let other = rig.dir(ROOT, "other");
    rig.mv((ROOT, "other"), (d, "moved"), RenameMode::Replace).unwrap();
    assert_eq!(errno(rig.mv((ROOT, "deeper"), (other, "x"), RenameMode::Replace)), 22);
    rig.remount();
    let mut d = ROOT;
    for _ in 0..1000 {
        d = rig.lookup(d, "deeper");
    }
    assert_eq!(rig.lookup(d, "moved"), other);
    rig.finish();
}
