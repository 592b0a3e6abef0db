//! Encrypted directories without the key: names have a text form, by which they can be looked up and removed.
use super::edit::edit_inode;
use super::*;
use segno_format::inode::Advise;

/// A volume with an encrypted directory `d` of three files and a directory; names and ciphertext are equal.
fn encrypted() -> (Rig, Ino, [Ino; 4]) {
    let rig = Rig::new(Features::ENCRYPT);
    let d = rig.dir(ROOT, "d");
    let long = "l".repeat(200);
    let made = [
        rig.file(d, "ciphertext-1----"),
        rig.file(d, "ciphertext-2----"),
        rig.file(d, &long),
        rig.dir(d, "ciphertext-dir--"),
    ];
    let Rig { dev, opts, v } = rig;
    v.unmount().unwrap();
    for ino in [d, made[0]] {
        edit_inode(&dev, ino, |i| i.i_advise |= Advise::ENCRYPT.bits());
    }
    let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
    (Rig { dev, opts, v }, d, made)
}

#[test]
fn names_without_a_key_can_be_listed_looked_up_and_removed() {
    let (rig, d, made) = encrypted();
    let listed = rig.list(d);
    assert_eq!(listed.len(), 4);
    for (name, ino) in &listed {
        assert!(!name.starts_with("cipher") && name.len() <= 255, "{name}");
        assert_eq!(rig.lookup(d, name), *ino);
    }
    assert_eq!(errno(rig.v.lookup(d, b"ciphertext-1----")), 2);
    assert_eq!(rig.lookup(d, ".."), ROOT);
    for (name, ino) in &listed {
        if *ino == made[3] {
            rig.v.rmdir(d, name.as_bytes()).unwrap();
        } else {
            rig.v.unlink(d, name.as_bytes()).unwrap();
        }
    }
    rig.v.rmdir(ROOT, b"d").unwrap();
    rig.finish();
}

#[test]
fn without_a_key_nothing_is_added_or_opened() {
    let (rig, d, made) = encrypted();
    let (o, f) = (Owner::default(), rig.file(ROOT, "f"));
    let name = rig.names(d).remove(0);
    assert_eq!(errno(rig.v.mknod(d, b"x", REG, (0, 0), o)), 1);
    assert_eq!(errno(rig.v.mkdir(d, b"x", 0, o)), 1);
    assert_eq!(errno(rig.v.symlink(d, b"x", b"t", o)), 1);
    assert_eq!(errno(rig.v.tmpfile(d, 0, o)), 1);
    assert_eq!(errno(rig.v.link(f, d, b"x")), 1);
    assert_eq!(errno(rig.mv((ROOT, "f"), (d, "x"), RenameMode::Replace)), 1);
    assert_eq!(errno(rig.mv((d, &name), (ROOT, "x"), RenameMode::Replace)), 1);
    assert_eq!(errno(rig.v.open(made[0])), 1);
    rig.v.open(d).unwrap();
    rig.v.release(d).unwrap();
    assert_eq!(rig.names(ROOT), ["d", "f"]);
}
