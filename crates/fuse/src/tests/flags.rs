//! Immutable and append-only files, flags that F2FS does not have, and access times, which are not maintained.
use super::{Mount, each_transport, run};
use crate::attr::ino_of;
use crate::options::{FuseOptions, options};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use segno_format::inode::InodeFlags;
use std::env::current_exe;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SETFLAGS: rustix::ioctl::Opcode = opcode::write::<usize>(b'f', 2);
const FSSETXATTR: rustix::ioctl::Opcode = opcode::write::<[u32; 7]>(b'X', 32);
const PAGE: usize = 4096;

fn set_flags(path: &Path, flags: usize) -> rustix::io::Result<()> {
    // SAFETY: FS_IOC_SETFLAGS reads one number through its pointer.
    unsafe { ioctl(File::open(path).unwrap(), Setter::<SETFLAGS, usize>::new(flags)) }
}

fn set_xflags(path: &Path, flags: u32) -> rustix::io::Result<()> {
    let attr = [flags, 0, 0, 0, 0, 0, 0];
    // SAFETY: FS_IOC_FSSETXATTR reads 28 bytes through its pointer.
    unsafe { ioctl(File::open(path).unwrap(), Setter::<FSSETXATTR, [u32; 7]>::new(attr)) }
}

/// Sets a flag directly on the volume, as the process may lack the privilege in a container.
fn flag(mount: &Mount, path: &Path, flag: InodeFlags) {
    mount.server.volume.set_flags(ino_of(fs::metadata(path).unwrap().ino()), flag).unwrap();
}

#[test]
fn flags_that_f2fs_does_not_have_are_refused() {
    each_transport(
        |mount| {
            let (file, dir) = (mount.path().join("f"), mount.path().join("d"));
            File::create(&file).unwrap();
            fs::create_dir(&dir).unwrap();
            // Secure deletion, undelete, data journal, no tail, top directory, extents, DAX; a directory's on a file.
            for flags in [1, 2, 0x4000, 0x8000, 0x2_0000, 0x8_0000, 0x200_0000] {
                assert_eq!(set_flags(&file, flags), Err(Errno::OPNOTSUPP), "{flags:#x}");
                assert_eq!(set_flags(&dir, flags), Err(Errno::OPNOTSUPP), "{flags:#x}");
            }
            assert_eq!(set_flags(&file, 0x1_0000), Err(Errno::OPNOTSUPP));
            set_flags(&dir, 0x1_0000).unwrap();
            // No defragmentation, DAX; a directory's on a file.
            for flags in [0x2000, 0x8000, 0x200] {
                assert_eq!(set_xflags(&file, flags), Err(Errno::OPNOTSUPP), "{flags:#x}");
            }
            set_xflags(&file, 0x80).unwrap();
            let flags = mount.server.volume.get_flags(ino_of(fs::metadata(&file).unwrap().ino())).unwrap();
            assert!(flags.contains(InodeFlags::NODUMP));
        },
        &[],
    );
}

#[test]
fn flagged_inodes_on_a_mount() {
    each_transport(
        |mount| {
            let (file, dir) = (mount.path().join("f"), mount.path().join("d"));
            fs::write(&file, b"old").unwrap();
            fs::create_dir_all(dir.join("full/sub")).unwrap();
            let day = Timespec { tv_sec: 86_400, tv_nsec: 0 };
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let touch = |time| {
                let times = Timestamps { last_access: time, last_modification: time };
                utimensat(CWD, &file, &times, AtFlags::empty())
            };
            let code = |done: io::Result<()>| done.unwrap_err().raw_os_error().unwrap();
            for kind in [InodeFlags::IMMUTABLE, InodeFlags::APPEND] {
                flag(mount, &file, kind);
                flag(mount, &dir, kind);
                assert_eq!(touch(day), Err(Errno::PERM));
                assert_eq!(touch(now).is_ok(), kind == InodeFlags::APPEND);
                assert_eq!(code(fs::write(&file, b"new")), 1);
                assert_eq!(code(fs::remove_dir(dir.join("full"))), 1);
                assert_eq!(code(fs::rename(dir.join("full"), mount.path().join("x"))), 1);
            }
        },
        &["default_permissions"],
    );
}

/// FUSE cannot refuse the mapping, but its pages are refused, msync fails, and readers see the old content.
#[test]
fn an_immutable_file_does_not_change_through_a_mapping() {
    each_transport(
        |mount| {
            let file = mount.path().join("f");
            let old = vec![b'o'; 3 * PAGE];
            for kind in [InodeFlags::IMMUTABLE, InodeFlags::APPEND] {
                let _first = fs::remove_file(&file);
                fs::write(&file, &old).unwrap();
                flag(mount, &file, kind);
                let mut child = Command::new(current_exe().unwrap());
                child.args(["--exact", "tests::flags::child", "--ignored"]).current_dir(mount.path());
                let out = run(&mut child).unwrap();
                assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
                let begun = Instant::now();
                while fs::read(&file).unwrap() != old {
                    assert!(begun.elapsed() < Duration::from_secs(20), "the kernel keeps what was refused");
                }
                flag(mount, &file, InodeFlags::empty());
            }
        },
        &[],
    );
}

#[test]
#[ignore = "the child of an_immutable_file_does_not_change_through_a_mapping"]
fn child() {
    let file = File::options().read(true).write(true).open("f").unwrap();
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a file of three pages that no other process truncates.
    unsafe {
        let at = mmap(std::ptr::null_mut(), 3 * PAGE, prot, MapFlags::SHARED, &file, 0).unwrap();
        at.cast::<u8>().add(PAGE).write(b'n');
        assert_eq!(msync(at, 3 * PAGE, MsyncFlags::SYNC), Err(Errno::PERM));
        munmap(at, 3 * PAGE).unwrap();
    }
}

#[test]
fn mounts_are_noatime() {
    let options = options(&FuseOptions::default());
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    each_transport(
        |mount| {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
            let mine = mounts.lines().find(|l| l.split(' ').nth(1) == mount.path().to_str()).unwrap();
            assert!(mine.split([' ', ',']).any(|o| o == "noatime"), "{mine}");
        },
        &options,
    );
}
