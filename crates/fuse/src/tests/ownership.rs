//! `uid=`, `gid=` and the masks: attributes from stat(2), effect of chmod and chown, and the stored values.
use super::{Mount, volume};
use crate::attr::ino_of;
use crate::block::Backing;
use crate::options::Choice;
use crate::ownership::Ownership;
use crate::server::Server;
use std::fs::{self, File, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

/// Owner, group and permissions.
fn seen(path: &Path) -> (u32, u32, u32) {
    let of = |m: Metadata| (m.uid(), m.gid(), m.mode() & 0o7777);
    of(fs::symlink_metadata(path).unwrap())
}

/// On the volume.
fn stored(mount: &Mount, path: &Path) -> (u32, u32, u32) {
    let ino = ino_of(fs::symlink_metadata(path).unwrap().ino());
    let attr = mount.server.volume.getattr(ino).unwrap();
    (attr.uid, attr.gid, u32::from(attr.mode) & 0o7777)
}

fn each_transport(ownership: Ownership, test: impl Fn(&Mount)) {
    for choice in [Choice::Classic, Choice::IoUring] {
        let server = Server::new(volume()).show(ownership);
        let backing = Backing::Nothing("a test".into());
        if let Some(mount) = Mount::served(server, choice, &[], &backing) {
            test(&mount);
        }
    }
}

#[test]
fn all_files_appear_to_have_the_owner_and_permissions() {
    let ownership = Ownership { uid: Some(1234), gid: Some(5678), fmask: Some(0o133), dmask: Some(0o022) };
    each_transport(ownership, |mount| {
        let [file, dir, link] = ["file", "dir", "link"].map(|n| mount.path().join(n));
        File::create(&file).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o4711)).unwrap();
        fs::create_dir(&dir).unwrap();
        symlink("file", &link).unwrap();
        assert_eq!(seen(&file), (1234, 5678, 0o644));
        assert_eq!(seen(&dir), (1234, 5678, 0o755));
        assert_eq!(seen(mount.path()), (1234, 5678, 0o755));
        assert_eq!(seen(&link), (1234, 5678, 0o777), "a mask does not apply to links");
        // Names come with attributes in a listing, too.
        let listed = fs::read_dir(mount.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().uid());
        assert!(listed.into_iter().all(|uid| uid == 1234));
        assert_eq!(stored(mount, &file).0, 1234, "new files are stored with the owner");
        assert_ne!(stored(mount, &file).2, 0o4711, "chmod has no effect");
    });
}

#[test]
fn what_is_not_fixed_can_be_changed() {
    let ownership = Ownership { uid: Some(1234), ..Ownership::default() };
    each_transport(ownership, |mount| {
        let file = mount.path().join("file");
        File::create(&file).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let before = stored(mount, &file);
        chown(&file, Some(77), Some(88)).unwrap();
        assert_eq!(seen(&file), (1234, 88, 0o640));
        assert_eq!(stored(mount, &file), (before.0, 88, 0o640), "the owner that is not shown stays");
    });
}
