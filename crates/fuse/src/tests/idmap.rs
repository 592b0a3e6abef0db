//! A mount that is mounted again with other numbers of users and groups, as containers and systemd-homed do.
#![allow(unsafe_code)]
use super::{Mount, each_transport};
use rustix::fs::{CWD, XattrFlags, setxattr};
use rustix::io::{Errno, Result};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
use std::fs::{self, File, Permissions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

const OPTIONS: [&str; 2] = ["allow_other", "default_permissions"];
/// A user of the volume, and its number on the second mount.
const USER: u32 = 5;
const SHOWN: u32 = FIRST + USER;
/// The second mount shows users and groups from 0 as numbers from this one.
const FIRST: u32 = 1000;
const COUNT: u32 = 10;
/// Owner of nothing on the second mount.
const OUTSIDE: u32 = FIRST + COUNT;

/// A process whose user namespace has the numbers.
struct Namespace(Child);

impl Namespace {
    fn new() -> Self {
        let mut child = Command::new("unshare")
            .args(["--user", "sh", "-c", "echo; exec sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It is in its namespace when it writes.
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        for map in ["uid_map", "gid_map"] {
            fs::write(format!("/proc/{}/{map}", child.id()), format!("0 {FIRST} {COUNT}")).unwrap();
        }
        Self(child)
    }

    fn file(&self) -> File {
        File::open(format!("/proc/{}/ns/user", self.0.id())).unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A second mount of a directory, which is unmounted when it is dropped.
struct Idmapped(tempfile::TempDir);

impl Idmapped {
    fn new(of: &Path) -> Result<Self> {
        let tree = open_tree(CWD, of, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
        map_ids(&tree, &Namespace::new().file())?;
        let dir = tempfile::tempdir().unwrap();
        move_mount(&tree, "", CWD, dir.path(), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        Ok(Self(dir))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Idmapped {
    fn drop(&mut self) {
        unmount(self.0.path(), UnmountFlags::empty()).unwrap();
    }
}

/// mount_setattr(2) with `MOUNT_ATTR_IDMAP`.
fn map_ids(tree: &OwnedFd, namespace: &File) -> Result<()> {
    let attr = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: namespace.as_raw_fd().cast_unsigned().into(),
    };
    // SAFETY: the path is an empty string with its NUL byte, and the structure has the size that is passed.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attr,
            size_of_val(&attr),
        )
    };
    if done == 0 { Ok(()) } else { Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()) }
}

/// The result of a call by a thread of another user.
fn by<T: Send>(user: u32, call: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let (group, user) = (Gid::from_raw(user), Uid::from_raw(user));
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
            call()
        });
        caller.join().unwrap()
    })
}

/// An operation for which the kernel leaves the check of the owner to the server.
fn advise(user: u32, file: &Path) -> Result<()> {
    by(user, || setxattr(file, "system.advise", &[1], XattrFlags::empty()))
}

fn create(user: u32, file: &Path) -> Result<()> {
    by(user, || File::create(file).map(drop).map_err(|e| Errno::from_io_error(&e).unwrap()))
}

fn owner(file: &Path) -> (u32, u32) {
    let found = fs::metadata(file).unwrap();
    (found.uid(), found.gid())
}

/// A file of the user in a directory where all may create files. `None` if the kernel maps no numbers of FUSE mounts.
fn idmapped(mount: &Mount) -> Option<Idmapped> {
    fs::set_permissions(mount.path(), Permissions::from_mode(0o777)).unwrap();
    let own = mount.path().join("own");
    fs::write(&own, "content").unwrap();
    chown(&own, Some(USER), Some(USER)).unwrap();
    assert_eq!(advise(USER, &own), Ok(()), "without such a mount a caller is known by its number");
    match Idmapped::new(mount.path()) {
        Ok(second) => Some(second),
        Err(e) => {
            println!("NOT TESTED: this kernel makes no idmapped mounts of FUSE: {e}");
            None
        }
    }
}

fn numbers_are_mapped_both_ways(mount: &Mount) {
    let Some(second) = idmapped(mount) else { return };
    let first = |name: &str| mount.path().join(name);
    assert_eq!(owner(&second.path("own")), (SHOWN, SHOWN));
    assert_eq!(owner(&first("own")), (USER, USER));
    create(SHOWN, &second.path("new")).unwrap();
    assert_eq!(owner(&first("new")), (USER, USER));
    chown(second.path("new"), Some(FIRST + 7), None).unwrap();
    assert_eq!(owner(&first("new")), (7, USER));
    assert_eq!(create(OUTSIDE, &second.path("outside")), Err(Errno::OVERFLOW));
    let chmod = |user, name: &Path| by(user, || rustix::fs::chmod(name, 0o600.into()));
    assert_eq!(chmod(SHOWN, &second.path("own")), Ok(()));
    assert_eq!(chmod(USER, &second.path("own")), Err(Errno::PERM));
}

/// The kernel does not report which mount a caller uses. So no caller counts as an owner; only its
/// capabilities count.
fn nobody_passes_for_an_owner(mount: &Mount) {
    let Some(second) = idmapped(mount) else { return };
    let own = mount.path().join("own");
    for (user, file) in [(USER, second.path("own")), (SHOWN, second.path("own")), (USER, own.clone())] {
        assert_eq!(advise(user, &file), Err(Errno::PERM), "{user}, {}", file.display());
    }
    assert_eq!(advise(0, &second.path("own")), Ok(()));
    drop(second);
    assert_eq!(advise(USER, &own), Ok(()));
}

#[test]
fn a_second_mount_shows_and_takes_other_numbers() {
    for each in [numbers_are_mapped_both_ways, nobody_passes_for_an_owner] {
        if !rustix::process::geteuid().is_root() {
            return println!("NOT TESTED: only root may make idmapped mounts");
        }
        each_transport(each, &OPTIONS);
    }
}
