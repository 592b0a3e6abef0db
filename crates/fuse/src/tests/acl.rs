//! The kernel checks permissions by the ACLs that it caches.
use super::suid::{USER, as_user};
use super::{Mount, volume};
use crate::block::Backing;
use crate::init;
use crate::options::Choice;
use crate::server::Server;
use rustix::fs::{XattrFlags, removexattr, setxattr};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const OPTIONS: [&str; 2] = ["allow_other", "default_permissions"];
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// An ACL by which the user may read and search, and all others may not.
fn acl_of_user() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(1, 7, u32::MAX), (2, 5, USER), (4, 0, u32::MAX), (0x10, 5, u32::MAX), (0x20, 0, u32::MAX)];
    let bytes = entries.iter().flat_map(|(tag, perm, id)| {
        let (tag, perm, id) = (tag.to_le_bytes(), perm.to_le_bytes(), id.to_le_bytes());
        [&tag[..], &perm, &id].concat()
    });
    [2, 0, 0, 0].into_iter().chain(bytes).collect()
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Whether the user can read a file.
fn can_read(mount: &Mount, name: &str) -> bool {
    as_user(mount, Command::new("cat").arg(name)).status.success()
}

#[test]
fn every_change_of_an_acl_is_in_force_at_once() {
    for choice in [Choice::Classic, Choice::IoUring] {
        let acl = init::Permissions { acl: true, idmap: true };
        let backing = Backing::Nothing("a test".into());
        let Some(mount) = Mount::served_with(Server::new(volume()), choice, &OPTIONS, &backing, acl) else {
            continue;
        };
        let (file, dir) = (mount.path().join("f"), mount.path().join("d"));
        chmod(mount.path(), 0o755);
        fs::write(&file, "content").unwrap();
        chmod(&file, 0o600);
        assert!(!can_read(&mount, "f"), "by mode");
        setxattr(&file, ACCESS, &acl_of_user(), XattrFlags::empty()).unwrap();
        assert!(can_read(&mount, "f"), "by ACL");
        // The group bits of the mode are the mask of the ACL.
        chmod(&file, 0o600);
        assert!(!can_read(&mount, "f"), "the mask is empty");
        chmod(&file, 0o650);
        assert!(can_read(&mount, "f"), "the mask permits it");
        removexattr(&file, ACCESS).unwrap();
        assert!(!can_read(&mount, "f"), "no ACL");

        fs::create_dir(&dir).unwrap();
        setxattr(&dir, DEFAULT, &acl_of_user(), XattrFlags::empty()).unwrap();
        chmod(&dir, 0o755);
        fs::write(dir.join("inherits"), "content").unwrap();
        assert!(can_read(&mount, "d/inherits"), "by the default ACL of the directory");
        removexattr(&dir, DEFAULT).unwrap();
        fs::write(dir.join("plain"), "content").unwrap();
        chmod(&dir.join("plain"), 0o600);
        assert!(!can_read(&mount, "d/plain"), "no default ACL");
    }
}
