//! Names after a crash are a consistent state, and a synced file has the path and link count it was synced with.
use super::*;
use segno_engine::RenameMode;

const MODES: [FsyncMode; 3] = [FsyncMode::Strict, FsyncMode::Posix, FsyncMode::Nobarrier];

fn mkdir(v: &Volume, dir: Ino, name: &str) -> Ino {
    v.mkdir(dir, name.as_bytes(), 0o755, Owner::default()).unwrap().ino
}

fn rename(v: &Volume, from: (Ino, &str), to: (Ino, &str), mode: RenameMode) {
    v.rename(from.0, from.1.as_bytes(), to.0, to.1.as_bytes(), mode, Owner::default()).unwrap();
}

/// All paths, parents before children.
fn paths(v: &Volume, dir: Ino, path: &str, out: &mut Vec<String>) {
    for name in names_in(v, dir) {
        let child = v.lookup(dir, name.as_bytes()).unwrap();
        out.push(format!("{path}/{name}"));
        if child.kind == segno_format::dentry::FileType::Directory {
            paths(v, child.ino, &format!("{path}/{name}"), out);
        }
    }
}

/// Commits directories a/sub and other/sub, runs `actions`, syncs the returned inode, and crashes.
fn after_crash(mode: FsyncMode, actions: impl Fn(&Rig) -> Ino) -> Vec<String> {
    let mut rig = Rig::new(mode);
    for top in ["a", "other"] {
        mkdir(&rig.v, mkdir(&rig.v, Ino::ROOT, top), "sub");
    }
    rig.v.sync().unwrap();
    let synced = actions(&rig);
    rig.fsync(synced);
    rig.crash();
    let mut found = Vec::new();
    paths(&rig.v, Ino::ROOT, "", &mut found);
    rig.judge();
    found
}

#[test]
fn a_new_file_below_a_renamed_ancestor_has_the_new_path() {
    for mode in MODES {
        let found = after_crash(mode, |rig| {
            let sub = rig.v.lookup(rig.ino("a"), b"sub").unwrap().ino;
            rename(&rig.v, (Ino::ROOT, "a"), (Ino::ROOT, "b"), RenameMode::Replace);
            create_in(&rig.v, sub, "new")
        });
        assert_eq!(found, ["/b", "/b/sub", "/b/sub/new", "/other", "/other/sub"], "{mode:?}");
    }
}

#[test]
fn a_new_file_below_swapped_directories_has_the_new_path() {
    for mode in MODES {
        let found = after_crash(mode, |rig| {
            let sub = rig.v.lookup(rig.ino("a"), b"sub").unwrap().ino;
            rename(&rig.v, (Ino::ROOT, "a"), (Ino::ROOT, "other"), RenameMode::Exchange);
            create_in(&rig.v, sub, "new")
        });
        assert_eq!(found, ["/a", "/a/sub", "/other", "/other/sub", "/other/sub/new"], "{mode:?}");
    }
}

#[test]
fn a_new_file_below_a_directory_that_moved_two_levels_up_has_the_new_path() {
    for mode in MODES {
        let found = after_crash(mode, |rig| {
            let (a, other) = (rig.ino("a"), rig.ino("other"));
            let deep = mkdir(&rig.v, rig.v.lookup(a, b"sub").unwrap().ino, "deep");
            rig.v.sync().unwrap();
            rename(&rig.v, (Ino::ROOT, "a"), (other, "moved"), RenameMode::Replace);
            create_in(&rig.v, deep, "new")
        });
        let moved =
            ["/other/moved", "/other/moved/sub", "/other/moved/sub/deep", "/other/moved/sub/deep/new"];
        assert_eq!(found, [&["/other"], &moved[..], &["/other/sub"]].concat(), "{mode:?}");
    }
}

#[test]
fn a_removed_second_name_stays_removed_once_the_file_is_synced() {
    for mode in MODES {
        let mut rig = Rig::new(mode);
        let ino = rig.file("f", b"content");
        rig.v.link(ino, Ino::ROOT, b"second").unwrap();
        rig.v.sync().unwrap();
        rig.v.unlink(Ino::ROOT, b"second").unwrap();
        rig.fsync(ino);
        rig.crash();
        assert_eq!(rig.names(), ["f"], "{mode:?}");
        assert_eq!(rig.v.getattr(rig.ino("f")).unwrap().nlink, 1, "{mode:?}");
        rig.judge();
    }
}

/// Replay would give the name to the new file; the renamed one has no other name in the checkpoint.
#[test]
fn a_new_file_under_the_old_name_of_a_renamed_one_does_not_replace_it() {
    for mode in MODES {
        let mut rig = Rig::new(mode);
        rig.file("a", b"old");
        rig.v.sync().unwrap();
        rename(&rig.v, (Ino::ROOT, "a"), (Ino::ROOT, "b"), RenameMode::Replace);
        rig.fsync(rig.file("a", b"new"));
        rig.crash();
        assert_eq!((rig.content("a"), rig.content("b")), (b"new".to_vec(), b"old".to_vec()), "{mode:?}");
        rig.judge();
    }
}

#[test]
fn a_file_that_was_linked_elsewhere_keeps_a_name_when_a_new_one_takes_its_old() {
    for mode in MODES {
        let mut rig = Rig::new(mode);
        let old = rig.file("a", b"old");
        rig.v.sync().unwrap();
        rig.v.link(old, Ino::ROOT, b"b").unwrap();
        rig.v.unlink(Ino::ROOT, b"a").unwrap();
        rig.fsync(rig.file("a", b"new"));
        rig.crash();
        assert_eq!((rig.content("a"), rig.content("b")), (b"new".to_vec(), b"old".to_vec()), "{mode:?}");
        rig.judge();
    }
}
