//! Lookup of inodes by number, as file handles use it.
use super::{ALL, REG, ROOT, Rig};
use segno_engine::lab::Probe;
use segno_engine::{Error, Owner};
use segno_format::{Features, Ino};

const ME: Owner = Owner { uid: 0, gid: 0, umask: 0 };

fn is_absent(rig: &Rig, ino: Ino) -> bool {
    matches!(rig.v.find(ino), Err(Error::NotFound))
}

#[test]
fn a_reused_number_has_another_generation() {
    let rig = Rig::new(ALL);
    let create = || rig.v.mknod(ROOT, b"f", REG | 0o644, (0, 0), ME).unwrap();
    let first = create();
    assert_eq!(rig.v.find(first.ino).unwrap().generation, first.generation);
    rig.v.unlink(ROOT, b"f").unwrap();
    assert!(is_absent(&rig, first.ino));
    let again = loop {
        Probe(&rig.v).checkpoint().unwrap();
        let mut seen = None;
        for _ in 0..10_000 {
            let made = create();
            if made.ino == first.ino {
                seen = Some(made);
                break;
            }
            rig.v.unlink(ROOT, b"f").unwrap();
        }
        if let Some(made) = seen {
            break made;
        }
    };
    assert_ne!(again.generation, first.generation);
    assert_eq!(rig.v.find(first.ino).unwrap().generation, again.generation);
}

#[test]
fn hidden_and_other_nodes_are_no_inodes() {
    let rig = Rig::new(ALL.union(Features::QUOTA_INO));
    let quota: Vec<u32> = rig.v.superblock().quota_inos().into_iter().flatten().collect();
    assert!(!quota.is_empty());
    let file = rig.v.mknod(ROOT, b"f", REG | 0o644, (0, 0), ME).unwrap().ino;
    // Allocates direct nodes, which get the following numbers.
    rig.v.write(file, 0, &vec![1; 12 << 20]).unwrap();
    rig.v.sync().unwrap();
    for number in quota.into_iter().chain([0, 1, 2, file.0 + 1, file.0 + 2, 5000, u32::MAX]) {
        assert!(is_absent(&rig, Ino(number)), "{number}");
    }
    // An open file without a name.
    rig.v.open(file).unwrap();
    rig.v.unlink(ROOT, b"f").unwrap();
    assert!(is_absent(&rig, file));
    rig.v.release(file).unwrap();
    assert!(!rig.v.is_stopped());
}
