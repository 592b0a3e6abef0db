//! A stranger who may change the directory replaces what was created while it is filled.
use super::*;
use std::fs::{Permissions, create_dir, read_dir, remove_file, rename, set_permissions, write};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

struct Place {
    dir: tempfile::TempDir,
    tree: HostTree,
}

impl Place {
    /// A tree below `root`, and `victim` outside of it with a file of mode 0600.
    fn new(preserve: Preserve) -> Self {
        let dir = tempfile::tempdir().unwrap();
        create_dir(dir.path().join("victim")).unwrap();
        write(dir.path().join("victim/file"), "secret").unwrap();
        for (name, mode) in [("victim/file", 0o600), ("victim", 0o700)] {
            set_permissions(dir.path().join(name), Permissions::from_mode(mode)).unwrap();
        }
        let tree = HostTree::create(&dir.path().join("root"), preserve).unwrap();
        Self { dir, tree }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn mode(&self, name: &str) -> u32 {
        self.path(name).symlink_metadata().unwrap().mode() & 0o7777
    }

    #[track_caller]
    fn assert_victim_is_untouched(&self) {
        assert_eq!((self.mode("victim"), self.mode("victim/file")), (0o700, 0o600));
        assert_eq!(std::fs::read(self.path("victim/file")).unwrap(), b"secret");
        assert_eq!(read_dir(self.path("victim")).unwrap().count(), 1);
    }
}

fn below(path: &str) -> Vec<Vec<u8>> {
    path.split('/').map(|name| name.as_bytes().to_vec()).collect()
}

fn open_to_all() -> Attributes<'static> {
    Attributes { mode: 0o6777, uid: u32::MAX, gid: u32::MAX, ..Attributes::default() }
}

#[test]
fn attributes_are_set_on_the_file_that_was_created() {
    let mut place = Place::new(Preserve::all());
    let mut file = place.tree.make_file(&below("file")).unwrap();
    rename(place.path("root/file"), place.path("moved")).unwrap();
    symlink(place.path("victim/file"), place.path("root/file")).unwrap();
    file.write_all(b"content").unwrap();
    place.tree.finish_file(&file, &open_to_all()).unwrap();
    assert_eq!(
        (place.mode("moved"), std::fs::read(place.path("moved")).unwrap()),
        (0o6777, b"content".to_vec())
    );
    place.assert_victim_is_untouched();
}

#[test]
fn a_special_file_that_was_replaced_is_an_error() {
    let mut place = Place::new(Preserve::all());
    let node = (Kind::Fifo, 0, 0);
    assert!(place.tree.make_node(&below("fifo"), node).unwrap());
    remove_file(place.path("root/fifo")).unwrap();
    symlink(place.path("victim/file"), place.path("root/fifo")).unwrap();
    let refused = place.tree.finish_node(&below("fifo"), node, &open_to_all()).unwrap_err();
    assert_eq!(refused.to_string(), "it was a FIFO and is a symbolic link: it changed meanwhile");
    // The times of the link may change, and its target may not.
    let link = (Kind::Symlink, 0, 0);
    place.tree.finish_node(&below("fifo"), link, &open_to_all()).unwrap();
    place.assert_victim_is_untouched();
}

#[test]
fn a_directory_that_was_replaced_by_a_link_is_not_entered() {
    let mut place = Place::new(Preserve::all());
    place.tree.make_dir(&below("dir")).unwrap();
    place.tree.make_dir(&below("dir/sub")).unwrap();
    place.tree.make_dir(&below("other")).unwrap();
    rename(place.path("root/dir"), place.path("moved")).unwrap();
    symlink(place.path("victim"), place.path("root/dir")).unwrap();
    // Forgets the descriptor of the old one.
    place.tree.make_file(&below("other/file")).unwrap();
    for done in [
        place.tree.make_file(&below("dir/new")).map(drop),
        place.tree.make_dir(&below("dir/new")),
        place.tree.make_symlink(&below("dir/new"), b"x"),
        place.tree.remove(&below("dir/file")),
        place.tree.hard_link(&below("other/file"), &below("dir/new")),
        place.tree.finish_dir(&below("dir"), &open_to_all()).map(drop),
    ] {
        assert_eq!(done, Err(Errno::NOTDIR));
    }
    assert!(!place.tree.has_dir(&below("dir")));
    place.assert_victim_is_untouched();
}

/// Also with an umask that permits everything.
#[test]
fn nothing_is_open_to_others_before_its_attributes_are_set() {
    let mut place = Place::new(Preserve::default());
    let file = place.tree.make_file(&below("file")).unwrap();
    place.tree.make_dir(&below("dir")).unwrap();
    assert!(place.tree.make_node(&below("fifo"), (Kind::Fifo, 0, 0)).unwrap());
    assert_eq!(["root", "root/file", "root/dir", "root/fifo"].map(|name| place.mode(name) & 0o077), [0; 4]);
    place.tree.finish_file(&file, &open_to_all()).unwrap();
    place.tree.finish_dir(&below("dir"), &open_to_all()).unwrap();
    place.tree.finish_node(&below("fifo"), (Kind::Fifo, 0, 0), &open_to_all()).unwrap();
    assert_eq!(["root/file", "root/dir", "root/fifo"].map(|name| place.mode(name)), [0o777; 3]);
    assert_eq!(place.tree.left_out(), LeftOut { setid: 3, ..LeftOut::default() });
    assert!(!place.tree.make_node(&below("null"), (Kind::CharacterDevice, 1, 3)).unwrap());
    assert_eq!(place.tree.left_out().to_string(), "set-ID bits (3), device nodes (1)");
    assert_eq!(place.tree.left_out().words(), "setid,devices");
}

#[test]
fn words_name_properties() {
    let all = ["setid", "devices", "caps", "trusted"].map(|word| Preserve::parse(word).unwrap());
    assert_eq!(all.into_iter().fold(Preserve::default(), |all, one| all | one), Preserve::all());
    assert_eq!(Preserve::parse("all"), Ok(Preserve::all()));
    assert_eq!(
        Preserve::parse("caps,").unwrap_err(),
        "\"caps,\" is none of setid, devices, caps, trusted and all"
    );
}
