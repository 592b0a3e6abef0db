//! Properties of files that the server enforces or keeps although it receives pages instead of writes.
use super::{PAGE, each_cached, stat};
use crate::attr::ino_of;
use crate::tests::Mount;
use rustix::fs::{
    AtFlags, CWD, SeekFrom, Timespec, Timestamps, UTIME_NOW, XattrFlags, getxattr, seek, setxattr, utimensat,
};
use rustix::io::Errno;
use segno_engine::{SetAttr, Volume};
use segno_format::Ino;
use segno_format::inode::InodeFlags;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Permits and enables CAP_SETUID.
const SETUID: [u8; 20] = [1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn ino(path: &Path) -> Ino {
    ino_of(fs::metadata(path).unwrap().ino())
}

fn append_only(mount: &Mount, name: &str, content: &[u8]) -> PathBuf {
    let path = mount.path().join(name);
    fs::write(&path, content).unwrap();
    mount.server.volume.set_flags(ino(&path), InodeFlags::APPEND).unwrap();
    path
}

/// The kernel sends whole pages, several requests at a time.
#[test]
fn an_append_only_file_grows() {
    each_cached(
        |mount| {
            let path = append_only(mount, "log", b"first\n");
            let mut expected = b"first\n".to_vec();
            for len in [1, 10, 5000, 3, 4 << 20, 7] {
                let line: Vec<u8> = (0..len).map(|i| b'a' + (i % 26) as u8).collect();
                let mut file = File::options().append(true).open(&path).unwrap();
                file.write_all(&line).unwrap();
                file.sync_all().unwrap();
                file.write_all(b"\n").unwrap();
                expected.extend(line);
                expected.push(b'\n');
            }
            let mut found = vec![0; expected.len() + 1];
            let n = mount.server.volume.read(ino(&path), 0, &mut found).unwrap();
            assert!(n == expected.len() && found[..n] == expected);
        },
        &[],
    );
}

/// The kernel does not know the flag, so write(2) succeeds. fsync fails, and the file is as it was.
#[test]
fn an_append_only_file_keeps_what_it_has() {
    each_cached(
        |mount| {
            for (name, len) in [("small", 100), ("large", 3 * PAGE)] {
                let old = vec![b'o'; len];
                let path = append_only(mount, name, &old);
                let file = File::options().write(true).open(&path).unwrap();
                file.write_all_at(b"new", len as u64 / 2).unwrap();
                assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(libc::EPERM));
                let mut found = vec![0; len + 1];
                assert_eq!(mount.server.volume.read(ino(&path), 0, &mut found).unwrap(), len);
                assert_eq!(found[..len], old);
                assert!(
                    mount
                        .server
                        .volume
                        .setattr(ino(&path), &SetAttr { size: Some(1), ..SetAttr::default() })
                        .is_err()
                );
            }
        },
        &[],
    );
}

#[test]
fn times_of_an_append_only_file_are_set_to_now_only() {
    each_cached(
        |mount| {
            let path = append_only(mount, "log", b"old");
            let touch = |time| {
                let times = Timestamps { last_access: time, last_modification: time };
                utimensat(CWD, &path, &times, AtFlags::empty())
            };
            touch(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }).unwrap();
            assert_eq!(touch(Timespec { tv_sec: 86_400, tv_nsec: 0 }), Err(Errno::PERM));
        },
        &[],
    );
}

/// As `cp -a` and package managers do: write, set the privileges, close.
#[test]
fn privileges_set_before_the_close_stay() {
    each_cached(
        |mount| {
            let path = mount.path().join("program");
            let mut file = File::create(&path).unwrap();
            file.write_all(&vec![1; 100_000]).unwrap();
            file.set_permissions(Permissions::from_mode(0o4755)).unwrap();
            setxattr(&path, "security.capability", &SETUID, XattrFlags::empty()).unwrap();
            drop(file);
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o4755);
            let mut value = [0; 64];
            assert_eq!(getxattr(&path, "security.capability", &mut value).unwrap(), SETUID.len());
        },
        &["suid"],
    );
}

/// The server does not have the data yet.
#[test]
fn data_in_the_cache_is_no_hole() {
    each_cached(
        |mount| {
            let file = File::create(mount.path().join("sparse")).unwrap();
            file.set_len(1 << 20).unwrap();
            file.sync_all().unwrap();
            file.write_all_at(&[1; PAGE], 512 << 10).unwrap();
            assert!(seek(&file, SeekFrom::Data(0)).unwrap() <= 512 << 10);
            assert!(seek(&file, SeekFrom::Data(512 << 10)).unwrap() == 512 << 10);
            assert!(seek(&file, SeekFrom::Hole(512 << 10)).unwrap() >= (512 << 10) + PAGE as u64);
        },
        &[],
    );
}

/// The handle cannot read, the kernel does it all the same to complete the page.
#[test]
fn part_of_a_page_is_written_through_a_handle_that_cannot_read() {
    each_cached(
        |mount| {
            let path = mount.path().join("f");
            fs::write(&path, [b'o'; 2 * PAGE]).unwrap();
            fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(b"new", 5000).unwrap();
            drop(file);
            let mut expected = vec![b'o'; 2 * PAGE];
            expected[5000..5003].copy_from_slice(b"new");
            assert!(fs::read(&path).unwrap() == expected);
        },
        &[],
    );
}

fn volume_size(volume: &Volume, ino: Ino) -> u64 {
    volume.getattr(ino).unwrap().size
}

/// Replies with the server's older size and times, as to a chmod of another handle, do not replace the kernel's.
#[test]
fn attributes_of_a_dirty_file_are_the_kernels() {
    each_cached(
        |mount| {
            let path = mount.path().join("f");
            let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
            file.write_all(&[1; 10_000]).unwrap();
            let (size, times) = stat(&file);
            assert_eq!((size, volume_size(&mount.server.volume, ino(&path))), (10_000, 0));
            // Each fetches the attributes.
            setxattr(&path, "user.a", b"x", XattrFlags::empty()).unwrap();
            file.write_all(&[2; 10]).unwrap();
            let (size, later) = stat(&file);
            assert!(size == 10_010 && later[..2] >= times[..2]);
            let mut all = Vec::new();
            File::open(&path).unwrap().read_to_end(&mut all).unwrap();
            assert_eq!(all.len(), 10_010);
        },
        &["default_permissions"],
    );
}
