//! Hash levels of directories: levels that Segno does not create, misplaced names, and conversion without space.
use super::edit::{edit_entry, edit_inode};
use super::*;
use segno_mkfs::CasefoldFlags;

/// An inline directory with two names whose level 0 has `1 << level` buckets.
fn with_level(mib: u64, level: u8) -> (Rig, Ino) {
    let rig = Rig::with(mib, Features::empty(), quiet());
    let d = rig.dir(ROOT, "d");
    rig.file(d, "first");
    rig.dir(d, "second");
    let Rig { dev, opts, v } = rig;
    v.unmount().unwrap();
    edit_inode(&dev, d, |i| i.i_dir_level = if i.i_name[0] == b'd' { level } else { 0 });
    let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
    (Rig { dev, opts, v }, d)
}

#[test]
fn a_directory_with_many_buckets_at_level_0_converts_by_hash() {
    let (mut rig, d) = with_level(128, 3);
    let f = rig.file(ROOT, "f");
    for i in 0..1500 {
        rig.v.link(f, d, format!("name {i}").as_bytes()).unwrap();
    }
    assert!(rig.attr(d).size >= 15 * 4096, "every bucket of level 0 is in use");
    rig.remount();
    assert_eq!(rig.list(d).len(), 1502);
    for i in 0..1500 {
        assert_eq!(rig.lookup(d, &format!("name {i}")), f);
        rig.v.unlink(d, format!("name {i}").as_bytes()).unwrap();
    }
    assert_eq!(rig.lookup(rig.lookup(d, "second"), ".."), d);
    rig.finish();
}

#[test]
fn conversion_without_space_leaves_the_inline_directory() {
    for level in [0, 3] {
        let (rig, d) = with_level(64, level);
        let (f, filler) = (rig.file(ROOT, "f"), rig.file(ROOT, "filler"));
        let spare: Vec<Ino> = (0..8).map(|i| rig.file(ROOT, &format!("spare{i}"))).collect();
        let mut names = 0;
        while rig.v.link(f, d, format!("{names:016}").as_bytes()).is_ok() {
            names += 1;
            if names == 80 {
                for &s in &spare {
                    rig.v.write(s, 5000, b"x").unwrap();
                }
                let mut at = 0;
                while rig.v.write(filler, at, &[1; 4096]).is_ok() {
                    at += 4096;
                }
            }
            assert!(names < 200, "conversion found space");
        }
        let inline = rig.attr(d);
        assert!(inline.size < 4096);
        // Level 0 needs one block, or many with many buckets: blocks are freed one by one until it fits.
        let mut freed = 0;
        loop {
            assert_eq!(rig.list(d).len(), 2 + names, "level {level}, {freed} freed");
            for i in 0..names {
                assert_eq!(rig.lookup(d, &format!("{i:016}")), f);
            }
            match rig.v.link(f, d, format!("{names:016}").as_bytes()) {
                Ok(_) => break,
                Err(e) => assert_eq!((e.errno(), rig.attr(d)), (28, inline)),
            }
            rig.v
                .setattr(spare[freed], &segno_engine::SetAttr { size: Some(0), ..Default::default() })
                .unwrap();
            freed += 1;
        }
        assert!(if level == 0 { freed == 1 } else { freed > 1 }, "level {level}: {freed} blocks");
        rig.finish();
    }
}

/// Some kernels hash names with ignorable characters differently. Such a name is found by linear search, unless the
/// volume disables it.
#[test]
fn a_folded_name_with_a_foreign_hash_is_found_by_searching() {
    for hash_only in [false, true] {
        let casefold = CasefoldFlags { strict: false, hash_only };
        let dev =
            fresh(128, &MkfsOptions { features: Features::CASEFOLD, casefold, ..MkfsOptions::default() });
        let opts = MountOptions { inline_dentry: false, ..quiet() };
        let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
        let d = v.mkdir(ROOT, b"d", 0o755, Owner::default()).unwrap().ino;
        v.set_flags(d, segno_format::inode::InodeFlags::CASEFOLD).unwrap();
        let f = v.mknod(d, b"Misplaced-Name", REG, (0, 0), Owner::default()).unwrap().ino;
        v.unmount().unwrap();
        edit_entry(&dev, b"Misplaced-Name", |b, s| b.0[30 + s * 11] ^= 0x55);
        let v = Volume::mount(dev, opts).unwrap();
        for _ in 0..2 {
            let found = v.lookup(d, b"misplaced-name").map(|a| a.ino);
            if hash_only {
                assert_eq!(errno(found), 2);
            } else {
                assert_eq!(found.unwrap(), f);
            }
            assert_eq!(errno(v.lookup(d, b"other")), 2);
        }
        assert_eq!(v.mknod(d, b"MISPLACED-NAME", REG, (0, 0), Owner::default()).is_err(), !hash_only);
    }
}
