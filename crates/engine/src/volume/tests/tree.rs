//! Damage in the index tree.
use super::rig::{BLOCK, Rig};
use crate::files::Inode;
use segno_format::{Features, Nid};

#[test]
fn damage_in_the_tree_is_reported() {
    let rig = Rig::new(Features::empty());
    let (file, other) = (rig.create(b"f"), rig.create(b"other"));
    let v = &rig.volume;
    // Blocks in a direct node, and below the first indirect node.
    for inode in [&file, &other] {
        for at in [900, 3_000] {
            assert_eq!(v.write(inode.ino, at * BLOCK, b"data").unwrap(), 4);
        }
    }
    let nid = |inode: &Inode, i| inode.get(|raw| raw.nid(i));
    let (direct, indirect) = (nid(&file, 0), nid(&file, 2));
    let cases = [
        (0, nid(&other, 0), "belongs to another inode"),
        (0, file.ino.nid(), "node offset"),
        (0, indirect, "node offset"),
        (2, direct, "node offset"),
        (2, Nid(u32::MAX), "out of range"),
        (0, Nid(5_000), "no address"),
    ];
    for (i, wrong, expected) in cases {
        let right = nid(&file, i);
        v.nodes.set_child(&v.base.tx.begin(), &file.frame, 0, i, wrong);
        let at = if i == 0 { 900 } else { 3_000 } * BLOCK;
        let mut found = vec![
            v.read(file.ino, at, &mut [0; 4]).map(drop),
            v.write(file.ino, at, b"x").map(drop),
            v.extents(file.ino).map(drop),
        ];
        if i == 2 {
            // Truncation starts at the end, so nothing was freed before it found the damage.
            found.push(v.files.truncate_blocks(&v.base.tx.begin(), &file, 2_900, usize::MAX).map(drop));
        }
        for error in found.into_iter().map(|r| r.unwrap_err().to_string()) {
            assert!(error.contains(expected), "{error}, expected {expected}");
        }
        v.nodes.set_child(&v.base.tx.begin(), &file.frame, 0, i, right);
    }
}
