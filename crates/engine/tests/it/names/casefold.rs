//! Casefolded directories.
use super::*;
use segno_format::inode::InodeFlags;
use segno_mkfs::CasefoldFlags;

fn folded(flags: CasefoldFlags) -> (Rig, Ino) {
    let dev = fresh(128, &MkfsOptions { features: ALL, casefold: flags, ..MkfsOptions::default() });
    let rig = Rig { v: mount(&dev), dev, opts: quiet() };
    let d = rig.dir(ROOT, "d");
    rig.v.set_flags(d, InodeFlags::CASEFOLD).unwrap();
    (rig, d)
}

#[test]
fn names_that_fold_alike_are_one() {
    let (mut rig, d) = folded(CasefoldFlags::default());
    let f = rig.file(d, "Straße");
    for name in ["Straße", "STRASSE", "strasse", "stra\u{200B}sse"] {
        if name.contains('\u{200B}') {
            continue;
        }
        assert_eq!(rig.lookup(d, name), f, "{name}");
        assert_eq!(errno(rig.v.mkdir(d, name.as_bytes(), 0, Owner::default())), 17, "{name}");
    }
    assert_eq!(errno(rig.v.lookup(d, b"strase")), 2);
    assert_eq!(rig.names(d), ["Straße"], "kept as it was given");
    rig.remount();
    rig.mv((d, "STRASSE"), (d, "strasse"), RenameMode::Replace).unwrap();
    assert_eq!(rig.names(d), ["strasse"]);
    assert_eq!(errno(rig.mv((d, "strasse"), (d, "STRASSE"), RenameMode::NoReplace)), 17);
    let s = rig.dir(d, "Sub");
    assert!(rig.attr(s).flags.contains(InodeFlags::CASEFOLD), "inherited");
    rig.file(s, "X");
    rig.v.unlink(s, b"x").unwrap();
    rig.v.rmdir(d, b"SUB").unwrap();
    rig.v.unlink(d, b"STRASSE").unwrap();
    rig.v.set_flags(d, InodeFlags::empty()).unwrap();
    rig.file(d, "a");
    rig.file(d, "A");
    rig.finish();
}

#[test]
fn many_folded_names_and_invalid_utf8() {
    let (mut rig, d) = folded(CasefoldFlags::default());
    let f = rig.file(ROOT, "f");
    for i in 0..3000 {
        rig.v.link(f, d, format!("Name{i}").as_bytes()).unwrap();
    }
    for raw in [&b"\xff\xfe"[..], b"\xffA", b"\xffa"] {
        rig.v.mknod(d, raw, REG, (0, 0), Owner::default()).unwrap();
    }
    rig.remount();
    for i in 0..3000 {
        assert_eq!(rig.lookup(d, &format!("NAME{i}")), f);
    }
    let (upper, lower) = (rig.v.lookup(d, b"\xffA").unwrap(), rig.v.lookup(d, b"\xffa").unwrap());
    assert_ne!(upper.ino, lower.ino, "compared as bytes");
    rig.finish();
}

#[test]
fn strict_volumes_refuse_invalid_utf8() {
    let (rig, d) = folded(CasefoldFlags { strict: true, hash_only: false });
    assert_eq!(errno(rig.v.mknod(d, b"\xff\xfe", REG, (0, 0), Owner::default())), 22);
    rig.v.mknod(ROOT, b"\xff\xfe", REG, (0, 0), Owner::default()).unwrap();
    rig.finish();
}

#[test]
fn respelling_a_name_is_a_rename_that_keeps_the_entry() {
    let (mut rig, d) = folded(CasefoldFlags::default());
    let f = rig.file(d, "ab");
    let longer = "Ab".to_owned() + &"\u{00DF}".repeat(100);
    let spellings = ["AB", "aB", "Ab"];
    for to in spellings {
        rig.mv((d, "ab"), (d, to), RenameMode::Replace).unwrap();
        assert_eq!(rig.list(d), [(to.to_owned(), f)]);
    }
    rig.mv((d, "AB"), (d, "Ab"), RenameMode::Replace).unwrap();
    assert_eq!(rig.list(d), [("Ab".to_owned(), f)], "spelled so already");
    rig.mv((d, "ab"), (d, &longer), RenameMode::Replace).unwrap();
    let shouted = "AB".to_owned() + &"ss".repeat(100);
    rig.mv((d, &longer.to_lowercase()), (d, &shouted), RenameMode::Replace).unwrap();
    assert_eq!(rig.list(d), [(shouted.clone(), f)]);
    rig.remount();
    assert_eq!((rig.lookup(d, &longer), rig.attr(f).nlink), (f, 1));
    rig.finish();
}
