//! References from a front end to inodes without a name.
use super::rig::Rig;
use segno_format::{Features, Ino};

#[test]
fn an_inode_without_a_name_is_kept_while_referenced() {
    let rig = Rig::new(Features::empty());
    let ino = rig.create(b"f").ino;
    let v = &rig.volume;
    v.write(ino, 0, b"data").unwrap();
    v.add_reference(ino);
    v.add_reference(ino);
    v.unlink(Ino::ROOT, b"f").unwrap();
    assert_eq!((rig.read(ino, 0, 9), v.getattr(ino).unwrap().nlink), (b"data".to_vec(), 0));
    // An open handle counts as well; the order of release does not matter.
    v.open(ino).unwrap();
    v.drop_references(ino, 1).unwrap();
    v.release(ino).unwrap();
    assert!(v.nodes.exists(ino).unwrap() && v.nodes.since.is_orphan(ino));
    v.drop_references(ino, 1).unwrap();
    assert!(!v.nodes.exists(ino).unwrap() && !v.nodes.since.is_orphan(ino));
    v.drop_references(ino, 1).unwrap();
}

#[test]
fn dropping_references_keeps_named_inodes() {
    let rig = Rig::new(Features::empty());
    let ino = rig.create(b"f").ino;
    rig.volume.add_reference(ino);
    rig.volume.drop_references(ino, u64::MAX).unwrap();
    assert_eq!(rig.volume.lookup(Ino::ROOT, b"f").unwrap().ino, ino);
    // Without references, removing the last name frees the inode.
    rig.volume.unlink(Ino::ROOT, b"f").unwrap();
    assert!(!rig.volume.nodes.exists(ino).unwrap());
}
