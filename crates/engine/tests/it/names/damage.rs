//! Damaged directories: operations return errors that name the location, and never panic.
use super::edit::{edit_entry, edit_inode};
use super::*;
use segno_format::dentry::FileType;

fn damaged(change: impl Fn(&mut Block, usize)) -> (Arc<Volume>, Ino) {
    let opts = MountOptions { inline_dentry: false, ..quiet() };
    let rig = Rig::with(128, Features::empty(), opts.clone());
    let d = rig.dir(ROOT, "d");
    rig.file(d, "victim-of-damage");
    let dev = rig.dev.clone();
    rig.finish();
    edit_entry(&dev, b"victim-of-damage", change);
    (Volume::mount(dev, opts).unwrap(), d)
}

#[test]
fn impossible_entries_are_reported() {
    let dentry = |slot: usize| 30 + slot * 11;
    // The damage, and the bytes of the entry that cause it.
    let cases = [
        ("name length", 8, &300u16.to_le_bytes()[..]),
        ("inode number", 4, &[0xFF; 4]),
        ("reserved inode", 4, &[1, 0, 0, 0]),
    ];
    for (what, at, bytes) in cases {
        let (v, d) = damaged(|b, s| b.0[dentry(s) + at..][..bytes.len()].copy_from_slice(bytes));
        assert_eq!(errno(v.lookup(d, b"victim-of-damage")), 117, "{what}");
        assert_eq!(errno(v.readdir(d, 0, &mut |_| true)), 117, "{what}");
        assert_eq!(errno(v.unlink(d, b"victim-of-damage")), 117, "{what}");
        let told = v.lookup(d, b"victim-of-damage").unwrap_err().to_string();
        assert!(told.contains(&format!("dentry block at inode {d}")), "{told}");
    }
}

#[test]
fn an_entry_of_a_missing_inode_is_reported() {
    let (v, d) = damaged(|b, s| b.0[30 + s * 11 + 4..30 + s * 11 + 8].copy_from_slice(&[200, 0, 0, 0]));
    assert_eq!(errno(v.lookup(d, b"victim-of-damage")), 117);
    assert_eq!(errno(v.unlink(d, b"victim-of-damage")), 117);
    let mut names = 0;
    v.readdir(d, 0, &mut |e| {
        names += usize::from(e.kind == FileType::Regular);
        true
    })
    .unwrap();
    assert_eq!(names, 1);
}

#[test]
fn an_entry_of_an_inode_without_links_is_reported_cached_or_not() {
    for in_memory in [false, true] {
        let rig = Rig::with(128, Features::empty(), quiet());
        let f = rig.file(ROOT, "f");
        let dev = rig.dev.clone();
        rig.finish();
        edit_inode(&dev, f, |i| i.i_links = U32::new(0));
        let v = Volume::mount(dev, quiet()).unwrap();
        if in_memory {
            v.open(f).unwrap();
        }
        assert_eq!(errno(v.lookup(ROOT, b"f")), 117, "{in_memory}");
    }
}

#[test]
fn parents_that_form_a_loop_are_reported() {
    let opts = MountOptions { inline_dentry: false, ..quiet() };
    let rig = Rig::with(128, Features::empty(), opts.clone());
    let a = rig.dir(ROOT, "a");
    let b = rig.dir(a, "b-with-a-longer-name");
    rig.dir(ROOT, "c");
    let dev = rig.dev.clone();
    rig.finish();
    // `..` of `a` leads to `b`.
    edit_entry(&dev, b"b-with-a-longer-name", |block, _| {
        block.0[30 + 11 + 4..30 + 11 + 8].copy_from_slice(&b.0.to_le_bytes());
    });
    let v = Volume::mount(dev, opts).unwrap();
    let moved = v.rename(ROOT, b"c", b, b"c", RenameMode::Replace, Owner::default());
    assert_eq!(errno(moved), 117);
}

/// A directory size unrelated to its blocks. Fuzzing with damaged images found listings that visited holes one by
/// one.
#[test]
fn a_directory_of_any_size_is_listed_by_its_blocks() {
    let opts = MountOptions { inline_dentry: false, ..quiet() };
    let rig = Rig::with(128, Features::empty(), opts.clone());
    let d = rig.dir(ROOT, "d");
    let dev = rig.dev.clone();
    rig.finish();
    edit_inode(&dev, d, |i| i.i_size = u64::MAX.into());
    let v = Volume::mount(dev, opts).unwrap();
    let mut names = 0;
    v.readdir(d, 0, &mut |_| {
        names += 1;
        true
    })
    .unwrap();
    assert_eq!(names, 2);
    v.rmdir(ROOT, b"d").unwrap();
}
