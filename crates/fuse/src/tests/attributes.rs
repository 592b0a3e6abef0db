//! stat(2) returns the server's attributes after every kind of change.
use super::{Mount, each_transport};
use crate::wire::Opcode;
use rustix::fs::{
    CWD, FallocateFlags, RenameFlags, XattrFlags, copy_file_range, fallocate, ftruncate, removexattr,
    renameat_with, setxattr,
};
use rustix::ioctl::{Setter, ioctl, opcode};
use segno_format::Ino;
use std::fs::{self, File, Metadata, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

const SETFLAGS: rustix::ioctl::Opcode = opcode::write::<usize>(b'f', 2);
const FSSETXATTR: rustix::ioctl::Opcode = opcode::write::<[u32; 7]>(b'X', 32);
const NODUMP: usize = 0x40;

/// The files that are changed.
struct Files<'a> {
    dir: &'a Path,
    file: File,
    other: File,
}

type Change = fn(&Files<'_>);

const CHANGES: [(&str, Change); 26] = [
    ("write", |f| f.file.write_all_at(&[1; 50_000], 0).unwrap()),
    ("xattr", |f| f.set("user.a", b"small")),
    ("xattr node", |f| f.set("user.b", &[7; 3000])),
    ("removed xattr node", |f| removexattr(f.path("f"), "user.b").unwrap()),
    ("removed xattr", |f| removexattr(f.path("f"), "user.a").unwrap()),
    ("ACL", |f| f.set("system.posix_acl_access", &acl())),
    ("allocate", |f| f.fallocate(FallocateFlags::empty())),
    ("punch", |f| f.fallocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)),
    ("zero", |f| f.fallocate(FallocateFlags::ZERO_RANGE)),
    ("truncate", |f| ftruncate(&f.file, 9000).unwrap()),
    ("copy", |f| {
        assert_eq!(copy_file_range(&f.other, Some(&mut 0), &f.file, Some(&mut 0), 5000).unwrap(), 5000)
    }),
    ("chmod", |f| fs::set_permissions(f.path("f"), Permissions::from_mode(0o6711)).unwrap()),
    ("chown", |f| chown(f.path("f"), Some(5), None).unwrap()),
    ("chattr", |f| set_flags(&f.file, NODUMP)),
    ("chattr of a directory", |f| set_flags(&File::open(f.dir).unwrap(), NODUMP)),
    ("fsxattr", |f| set_xflags(&f.file, 0)),
    ("link", |f| fs::hard_link(f.path("f"), f.path("h")).unwrap()),
    ("unlink", |f| fs::remove_file(f.path("h")).unwrap()),
    ("mkdir", |f| fs::create_dir(f.path("d")).unwrap()),
    ("rmdir", |f| fs::remove_dir(f.path("d")).unwrap()),
    ("link of another", |f| fs::hard_link(f.path("other"), f.path("h")).unwrap()),
    ("rename over a link", |f| {
        File::create(f.path("g")).and_then(|_| fs::rename(f.path("g"), f.path("h"))).unwrap();
    }),
    ("removal of the other name", |f| fs::remove_file(f.path("h")).unwrap()),
    ("exchange", |f| f.exchange()),
    ("exchange back", |f| f.exchange()),
    ("rename", |f| {
        fs::rename(f.path("f"), f.path("g")).and_then(|()| fs::rename(f.path("g"), f.path("f"))).unwrap()
    }),
];

impl Files<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn set(&self, name: &str, value: &[u8]) {
        setxattr(self.path("f"), name, value, XattrFlags::empty()).unwrap();
    }

    fn exchange(&self) {
        let (f, other) = (self.path("f"), self.path("other"));
        renameat_with(CWD, f, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }

    fn fallocate(&self, mode: FallocateFlags) {
        fallocate(&self.file, mode, 0, 100_000).unwrap();
    }
}

/// An ACL with an extra entry: user 1 may read, all others as in mode 0o704.
fn acl() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(1, 7, u32::MAX), (2, 4, 1), (4, 0, u32::MAX), (0x10, 0, u32::MAX), (0x20, 4, u32::MAX)];
    let bytes = entries.iter().flat_map(|(tag, perm, id)| {
        let (tag, perm, id) = (tag.to_le_bytes(), perm.to_le_bytes(), id.to_le_bytes());
        [&tag[..], &perm, &id].concat()
    });
    [2, 0, 0, 0].into_iter().chain(bytes).collect()
}

/// Compares all attributes of one name.
fn same(mount: &Mount, path: &Path, after: &str) {
    compare(mount, &fs::symlink_metadata(path).unwrap(), after);
}

/// Compares attributes from the kernel with attributes of the volume.
pub(super) fn compare(mount: &Mount, seen: &Metadata, after: &str) {
    let is = mount.server.volume.getattr(Ino(seen.ino() as u32)).unwrap();
    let time = |t: segno_engine::Time| (t.secs, i64::from(t.nsec));
    assert_eq!(seen.mode(), u32::from(is.mode), "mode after {after}");
    assert_eq!((seen.uid(), seen.gid()), (is.uid, is.gid), "owner after {after}");
    assert_eq!(seen.nlink(), u64::from(is.nlink), "links after {after}");
    assert_eq!((seen.size(), seen.blocks()), (is.size, is.blocks), "size and blocks after {after}");
    assert_eq!((seen.mtime(), seen.mtime_nsec()), time(is.mtime), "mtime after {after}");
    assert_eq!((seen.ctime(), seen.ctime_nsec()), time(is.ctime), "ctime after {after}");
}

fn set_flags(file: &File, flags: usize) {
    // SAFETY: FS_IOC_SETFLAGS reads one number through its pointer.
    unsafe { ioctl(file, Setter::<SETFLAGS, usize>::new(flags)).unwrap() };
}

fn set_xflags(file: &File, flags: u32) {
    // SAFETY: FS_IOC_FSSETXATTR reads 28 bytes through its pointer.
    unsafe { ioctl(file, Setter::<FSSETXATTR, [u32; 7]>::new([flags, 0, 0, 0, 0, 0, 0])).unwrap() };
}

#[test]
fn every_change_is_visible_at_once() {
    each_transport(
        |mount| {
            let dir = mount.path();
            let create =
                |name| File::options().read(true).write(true).create_new(true).open(dir.join(name)).unwrap();
            let (file, mut other) = (create("f"), create("other"));
            other.write_all(&[2; 10_000]).unwrap();
            let files = Files { dir, file, other };
            for (name, change) in CHANGES {
                let all = [dir, &files.path("f"), &files.path("other")];
                all.iter().for_each(|path| same(mount, path, "nothing"));
                change(&files);
                all.iter().for_each(|path| same(mount, path, name));
                // Nothing reports to the kernel what is written and moved in the background.
                mount.server.volume.sync().unwrap();
                mount.server.volume.clean_now().unwrap();
                all.iter().for_each(|path| same(mount, path, &format!("writeback after {name}")));
            }
        },
        &[],
    );
}

type Removal = fn(&Path);

/// A file that loses its last name while it is open.
#[test]
fn an_open_file_without_a_name_has_no_links() {
    let removals: [(&str, Removal); 3] = [
        ("unlink", |d| fs::remove_file(d.join("f")).unwrap()),
        ("rename over it", |d| fs::rename(d.join("other"), d.join("f")).unwrap()),
        ("rename within", |d| {
            fs::hard_link(d.join("f"), d.join("g")).unwrap();
            fs::remove_file(d.join("f")).unwrap();
            fs::rename(d.join("other"), d.join("g")).unwrap();
        }),
    ];
    for (name, remove) in removals {
        each_transport(
            |mount| {
                let dir = mount.path();
                fs::write(dir.join("f"), [1; 10_000]).unwrap();
                fs::write(dir.join("other"), "other").unwrap();
                let open = File::open(dir.join("f")).unwrap();
                compare(mount, &open.metadata().unwrap(), "open");
                remove(dir);
                assert_eq!(open.metadata().unwrap().nlink(), 0, "{name}");
                compare(mount, &open.metadata().unwrap(), name);
            },
            &[],
        );
    }
}

/// The kernel would fetch a stale mode before it opens the file.
#[test]
fn a_write_that_removes_nothing_leaves_the_mode_valid() {
    each_transport(
        |mount| {
            let path = mount.path().join("f");
            let file = File::create(&path).unwrap();
            let fetched =
                || mount.server.traffic.requests().find(|(op, _)| *op == Opcode::GetAttr).map(|(_, n)| n);
            // Fetches the attributes of the changed directory.
            File::open(&path).unwrap();
            let before = fetched();
            for offset in 0..10 {
                file.write_all_at(b"data", offset).unwrap();
                File::open(&path).unwrap();
            }
            assert_eq!(fetched(), before);
        },
        &["default_permissions"],
    );
}
