//! Extended attributes.
use super::*;
use XattrMode::{Create, Replace, Set};
use segno_engine::XattrMode;
use segno_testkit::Rng;

#[test]
fn attributes_can_be_read_and_listed() {
    for features in [Features::empty(), ALL] {
        let mut rig = Rig::new(features);
        let f = rig.file(ROOT, "f");
        for (name, value) in [
            (&b"user.one"[..], &b"1"[..]),
            (b"trusted.two", b""),
            (b"security.selinux", b"label\0"),
            (b"user.one", b"changed"),
        ] {
            rig.v.setxattr(f, name, value, Set).unwrap();
        }
        rig.remount();
        assert_eq!(rig.v.getxattr(f, b"user.one").unwrap(), b"changed");
        assert_eq!(rig.v.getxattr(f, b"trusted.two").unwrap(), b"");
        assert_eq!(rig.v.listxattr(f).unwrap(), b"trusted.two\0security.selinux\0user.one\0");
        rig.v.removexattr(f, b"trusted.two").unwrap();
        rig.v.removexattr(f, b"security.selinux").unwrap();
        rig.v.removexattr(f, b"user.one").unwrap();
        assert_eq!(rig.v.listxattr(f).unwrap(), b"");
        rig.remount();
        assert_eq!(rig.v.listxattr(f).unwrap(), b"");
        rig.finish();
    }
}

#[test]
fn modes_and_names_are_refused_as_linux_does() {
    let rig = Rig::new(Features::empty());
    let f = rig.file(ROOT, "f");
    let set = |n: &[u8], m| rig.v.setxattr(f, n, b"v", m);
    assert_eq!(errno(set(b"user.a", Replace)), 61);
    set(b"user.a", Create).unwrap();
    assert_eq!(errno(set(b"user.a", Create)), 17);
    set(b"user.a", Replace).unwrap();
    assert_eq!(errno(rig.v.getxattr(f, b"user.b")), 61);
    assert_eq!(errno(rig.v.removexattr(f, b"user.b")), 61);
    assert_eq!(errno(set(b"user.", Set)), 22);
    assert_eq!(errno(set(b"os2.a", Set)), 95);
    assert_eq!(errno(set(&[b"user.".as_slice(), &[b'n'; 251]].concat(), Set)), 34);
    set(&[b"user.".as_slice(), &[b'n'; 250]].concat(), Set).unwrap();
    let p = rig.v.mknod(ROOT, b"p", 0o010_600, (0, 0), Owner::default()).unwrap().ino;
    assert_eq!(errno(rig.v.setxattr(p, b"user.a", b"", Set)), 1);
    rig.v.setxattr(p, b"trusted.a", b"x", Set).unwrap();
    assert_eq!(errno(rig.v.getxattr(p, b"user.a")), 61);
    rig.finish();
}

#[test]
fn mount_options_hide_attributes() {
    let opts = MountOptions { user_xattr: false, acl: false, ..quiet() };
    let mut rig = Rig::new(Features::empty());
    let f = rig.file(ROOT, "f");
    rig.v.setxattr(f, b"user.a", b"v", Set).unwrap();
    rig.v.setxattr(f, b"trusted.a", b"v", Set).unwrap();
    rig.opts = opts;
    rig.remount();
    assert_eq!(errno(rig.v.getxattr(f, b"user.a")), 95);
    assert_eq!(errno(rig.v.getxattr(f, b"system.posix_acl_access")), 95);
    assert_eq!(rig.v.listxattr(f).unwrap(), b"trusted.a\0");
    rig.finish();
}

/// Sizes at which a value no longer fits in the inode, straddles, and no longer fits at all.
#[test]
fn values_of_every_size_up_to_the_limit() {
    for (features, inline) in [(Features::empty(), 200), (ALL, 200)] {
        let mut rig = Rig::new(features);
        let f = rig.file(ROOT, "f");
        let value = |len: usize| (0..len).map(|i| (i * 7 + len) as u8).collect::<Vec<_>>();
        let blocks = |rig: &Rig| rig.attr(f).blocks / 8;
        // Header, entry and a name of one byte.
        let fits_inline = inline - 24 - 4 - 1;
        let fits = inline + 4072 - 24 - 4 - 1;
        for (len, expected) in
            [(0, 0), (1, 0), (fits_inline, 0), (fits_inline + 1, 1), (1000, 1), (4072, 1), (fits, 1)]
        {
            rig.v.setxattr(f, b"user.x", &value(len), Set).unwrap();
            assert_eq!(blocks(&rig), expected, "{len} bytes");
            assert_eq!(rig.v.getxattr(f, b"user.x").unwrap(), value(len));
        }
        rig.remount();
        assert_eq!(rig.v.getxattr(f, b"user.x").unwrap(), value(fits));
        assert_eq!(errno(rig.v.setxattr(f, b"user.x", &value(fits + 1), Set)), 7);
        assert_eq!(errno(rig.v.setxattr(f, b"user.y", b"", Set)), 7);
        assert_eq!(errno(rig.v.setxattr(f, b"user.y", &value(65_536), Set)), 7);
        assert_eq!(rig.v.getxattr(f, b"user.x").unwrap(), value(fits));
        rig.v.setxattr(f, b"user.x", b"small", Set).unwrap();
        assert_eq!(blocks(&rig), 0);
        rig.remount();
        assert_eq!(rig.v.getxattr(f, b"user.x").unwrap(), b"small");
        rig.v.setxattr(f, b"user.x", &value(3000), Set).unwrap();
        rig.v.unlink(ROOT, b"f").unwrap();
        rig.finish();
    }
}

#[test]
fn random_attributes_against_a_map() {
    let mut rig = Rig::new(ALL);
    let f = rig.dir(ROOT, "d");
    let seed = 0x5EED_0003;
    let mut rng = Rng::new(seed);
    let mut model = std::collections::BTreeMap::new();
    for step in 0..1500 {
        let name = format!("user.{}", "n".repeat(1 + rng.below(9) as usize));
        if rng.below(4) == 0 {
            let gone = model.remove(&name).is_some();
            assert_eq!(rig.v.removexattr(f, name.as_bytes()).is_ok(), gone, "seed {seed:#x} step {step}");
        } else {
            let value = vec![step as u8; rng.below(900) as usize];
            match rig.v.setxattr(f, name.as_bytes(), &value, Set) {
                Ok(()) => drop(model.insert(name, value)),
                Err(e) => assert_eq!(e.errno(), 7, "seed {seed:#x} step {step}"),
            }
        }
        if step % 250 == 249 {
            rig.remount();
        }
        for (name, value) in &model {
            assert_eq!(
                rig.v.getxattr(f, name.as_bytes()).unwrap(),
                *value,
                "seed {seed:#x} step {step} {name}"
            );
        }
    }
    rig.finish();
}

#[test]
fn system_advise_is_a_virtual_attribute() {
    let rig = Rig::new(Features::empty());
    let f = rig.file(ROOT, "f");
    rig.v.setxattr(f, b"system.advise", &[1], Set).unwrap();
    assert_eq!(rig.v.getxattr(f, b"system.advise").unwrap(), [1]);
    rig.v.setxattr(f, b"system.advise", &[0], Set).unwrap();
    assert_eq!(rig.v.getxattr(f, b"system.advise").unwrap(), [0]);
    for bad in [&[4][..], &[], &[1, 1]] {
        assert_eq!(errno(rig.v.setxattr(f, b"system.advise", bad, Set)), 22);
    }
    assert_eq!(errno(rig.v.removexattr(f, b"system.advise")), 22);
    assert_eq!(rig.v.listxattr(f).unwrap(), b"");
    rig.finish();
}
