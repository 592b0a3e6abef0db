//! No space: an operation succeeds completely or changes nothing.
use super::*;
use segno_engine::XattrMode;

/// Fills a small volume with directories, long symlinks and attributes until nothing fits, then empties it.
#[test]
fn a_full_volume_is_consistent_and_can_be_emptied() {
    for features in [Features::empty(), ALL] {
        let opts = MountOptions { inline_dentry: false, inline_data: false, ..quiet() };
        let mut rig = Rig::with(64, features, opts);
        let before = rig.v.statfs();
        let o = Owner::default();
        let mut made = Vec::new();
        let mut refused = 0;
        for i in 0.. {
            let name = format!("{i:0100}");
            let done = match i % 3 {
                0 => rig.v.mkdir(ROOT, name.as_bytes(), 0o755, o),
                1 => rig.v.symlink(ROOT, name.as_bytes(), &[b't'; 4000], o),
                _ => rig.v.mknod(ROOT, name.as_bytes(), REG, (0, 0), o),
            };
            match done {
                Ok(a) => {
                    if i % 3 == 2 {
                        drop(rig.v.setxattr(a.ino, b"user.x", &[1; 3000], XattrMode::Set));
                    }
                    made.push((name, a.ino));
                }
                Err(e) => {
                    assert_eq!(e.errno(), 28, "{e}");
                    assert_eq!(errno(rig.v.lookup(ROOT, name.as_bytes())), 2);
                    refused += 1;
                }
            }
            if refused > 20 {
                break;
            }
        }
        assert!(made.len() > 1000, "{}", made.len());
        rig.remount();
        made.sort();
        assert_eq!(rig.list(ROOT), made);
        for (name, ino) in &made {
            if rig.attr(*ino).mode & 0o170_000 == 0o040_000 {
                rig.v.rmdir(ROOT, name.as_bytes()).unwrap();
            } else {
                rig.v.unlink(ROOT, name.as_bytes()).unwrap();
            }
        }
        rig.remount();
        let after = rig.v.statfs();
        // The root directory keeps the nodes of its index.
        assert!(before.bfree - after.bfree < 8, "{before:?} {after:?}");
        rig.finish();
    }
}
