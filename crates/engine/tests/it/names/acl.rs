//! ACLs through the extended attributes.
use super::*;
use segno_engine::{SetAttr, XattrMode::Set};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
const NO_ID: u32 = u32::MAX;
const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut out = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&perm.to_le_bytes());
        out.extend_from_slice(&id.to_le_bytes());
    }
    out
}

/// rwx for the owner, `user` for user 1000, `group` for the group, `mask`, `other`.
fn full(user: u16, group: u16, mask: u16, other: u16) -> Vec<u8> {
    acl(&[
        (USER_OBJ, 7, NO_ID),
        (USER, user, 1000),
        (GROUP_OBJ, group, NO_ID),
        (MASK, mask, NO_ID),
        (OTHER, other, NO_ID),
    ])
}

#[test]
fn an_access_acl_and_the_mode_stay_in_sync() {
    let mut rig = Rig::new(ALL);
    let f = rig.file(ROOT, "f");
    assert_eq!(errno(rig.v.getxattr(f, ACCESS)), 61);
    rig.v.setxattr(f, ACCESS, &full(6, 5, 4, 1), Set).unwrap();
    assert_eq!(rig.attr(f).mode, 0o100_741);
    rig.remount();
    assert_eq!(rig.v.getxattr(f, ACCESS).unwrap(), full(6, 5, 4, 1));
    assert_eq!(rig.v.listxattr(f).unwrap(), b"system.posix_acl_access\0");
    let a = rig.v.setattr(f, &SetAttr { mode: Some(0o4572), ..SetAttr::default() }).unwrap();
    assert_eq!(a.mode, 0o104_572);
    let after = acl(&[
        (USER_OBJ, 5, NO_ID),
        (USER, 6, 1000),
        (GROUP_OBJ, 5, NO_ID),
        (MASK, 7, NO_ID),
        (OTHER, 2, NO_ID),
    ]);
    assert_eq!(rig.v.getxattr(f, ACCESS).unwrap(), after);
    rig.v.removexattr(f, ACCESS).unwrap();
    rig.v.removexattr(f, ACCESS).unwrap();
    assert_eq!(errno(rig.v.getxattr(f, ACCESS)), 61);
    assert_eq!(rig.attr(f).mode, 0o104_572);
    rig.finish();
}

#[test]
fn an_acl_equivalent_to_the_mode_is_not_stored() {
    let rig = Rig::new(Features::empty());
    let f = rig.file(ROOT, "f");
    rig.v.setxattr(f, ACCESS, &full(6, 5, 4, 1), Set).unwrap();
    let plain = acl(&[(USER_OBJ, 6, NO_ID), (GROUP_OBJ, 4, NO_ID), (OTHER, 0, NO_ID)]);
    rig.v.setxattr(f, ACCESS, &plain, Set).unwrap();
    assert_eq!(rig.attr(f).mode, 0o100_640);
    assert_eq!(rig.v.listxattr(f).unwrap(), b"");
    rig.finish();
}

#[test]
fn bad_acls_and_targets_are_refused() {
    let rig = Rig::new(Features::empty());
    let (f, d) = (rig.file(ROOT, "f"), rig.dir(ROOT, "d"));
    let s = rig.v.symlink(ROOT, b"s", b"t", Owner::default()).unwrap().ino;
    assert_eq!(errno(rig.v.setxattr(f, DEFAULT, &full(7, 7, 7, 7), Set)), 13);
    rig.v.setxattr(f, DEFAULT, &[], Set).unwrap();
    assert_eq!(errno(rig.v.setxattr(s, ACCESS, &full(7, 7, 7, 7), Set)), 95);
    assert_eq!(errno(rig.v.setxattr(d, DEFAULT, &acl(&[(USER_OBJ, 7, NO_ID)]), Set)), 22);
    assert_eq!(errno(rig.v.setxattr(d, DEFAULT, &[2, 0], Set)), 22);
    assert_eq!(errno(rig.v.setxattr(d, DEFAULT, &full(8, 7, 7, 7), Set)), 22);
    assert_eq!(rig.v.listxattr(d).unwrap(), b"");
    rig.finish();
}

#[test]
fn a_default_acl_is_inherited_and_replaces_the_umask() {
    for features in [Features::empty(), ALL] {
        let mut rig = Rig::new(features);
        let d = rig.dir(ROOT, "d");
        rig.v.setxattr(d, DEFAULT, &full(6, 5, 7, 4), Set).unwrap();
        assert_eq!(rig.attr(d).mode, 0o040_755, "a default ACL is no access ACL");
        let o = Owner { umask: 0o077, ..Owner::default() };
        let f = rig.v.mknod(d, b"f", REG | 0o666, (0, 0), o).unwrap();
        assert_eq!(f.mode, 0o100_664);
        let expected = acl(&[
            (USER_OBJ, 6, NO_ID),
            (USER, 6, 1000),
            (GROUP_OBJ, 5, NO_ID),
            (MASK, 6, NO_ID),
            (OTHER, 4, NO_ID),
        ]);
        assert_eq!(rig.v.getxattr(f.ino, ACCESS).unwrap(), expected);
        assert_eq!(errno(rig.v.getxattr(f.ino, DEFAULT)), 61);
        let s = rig.v.mkdir(d, b"s", 0o777, o).unwrap();
        assert_eq!(s.mode, 0o040_774);
        assert_eq!(rig.v.getxattr(s.ino, DEFAULT).unwrap(), full(6, 5, 7, 4));
        assert_eq!(rig.v.getxattr(s.ino, ACCESS).unwrap(), full(6, 5, 7, 4));
        let l = rig.v.symlink(d, b"l", b"t", o).unwrap();
        assert_eq!((l.mode, rig.v.listxattr(l.ino).unwrap().len()), (0o120_777, 0));
        rig.v
            .setxattr(
                d,
                DEFAULT,
                &acl(&[(USER_OBJ, 7, NO_ID), (GROUP_OBJ, 5, NO_ID), (OTHER, 0, NO_ID)]),
                Set,
            )
            .unwrap();
        let p = rig.v.mknod(d, b"p", REG | 0o666, (0, 0), o).unwrap();
        assert_eq!((p.mode, rig.v.listxattr(p.ino).unwrap().len()), (0o100_640, 0));
        rig.remount();
        assert_eq!(rig.v.getxattr(f.ino, ACCESS).unwrap(), expected);
        rig.finish();
    }
}

#[test]
fn an_inherited_acl_that_does_not_fit_inline_gets_a_node() {
    let mut rig = Rig::new(ALL);
    let d = rig.dir(ROOT, "d");
    let mut entries = vec![(USER_OBJ, 7, NO_ID)];
    entries.extend((0..100).map(|i| (USER, 4, i)));
    entries.extend([(GROUP_OBJ, 5, NO_ID), (MASK, 7, NO_ID), (OTHER, 0, NO_ID)]);
    rig.v.setxattr(d, DEFAULT, &acl(&entries), Set).unwrap();
    let f = rig.v.mknod(d, b"f", REG | 0o777, (0, 0), Owner::default()).unwrap().ino;
    let s = rig.dir(d, "s");
    rig.remount();
    assert_eq!(rig.v.getxattr(f, ACCESS).unwrap(), acl(&entries));
    assert_eq!(rig.v.getxattr(s, DEFAULT).unwrap(), acl(&entries));
    rig.finish();
}

/// An ACL of the given number of entries.
fn long(entries: u32) -> Vec<u8> {
    let named = (0..entries - 4).map(|id| (USER, 7, id));
    let rest = [(GROUP_OBJ, 7, NO_ID), (MASK, 7, NO_ID), (OTHER, 7, NO_ID)];
    acl(&[(USER_OBJ, 7, NO_ID)].into_iter().chain(named).chain(rest).collect::<Vec<_>>())
}

#[test]
fn the_longest_acl_is_that_of_linux() {
    // 4072 bytes in a node, with the default options 200 more in the inode; 28 for header and entry.
    for (inline_xattr, most) in [(false, 507), (true, 532)] {
        let rig = Rig::with(128, ALL, MountOptions { inline_xattr, ..quiet() });
        let d = rig.dir(ROOT, "d");
        for name in [ACCESS, DEFAULT] {
            assert_eq!(errno(rig.v.setxattr(d, name, &long(most + 1), Set)), 7);
            rig.v.setxattr(d, name, &long(most), Set).unwrap();
            assert_eq!(rig.v.getxattr(d, name).unwrap(), long(most));
            rig.v.removexattr(d, name).unwrap();
        }
        rig.finish();
    }
}
