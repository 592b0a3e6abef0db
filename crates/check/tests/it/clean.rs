//! Volumes that f2fs-tools make and accept are clean.
use crate::image::{mkfs, populate, report, sload, text};
use segno_device::{FileDevice, OpenOptions};
use std::fs;
use std::path::Path;

const MIB: u64 = 1 << 20;
const ALL: &str = "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,compression,quota,\
                   project_quota,lost_found,verity,encrypt";

fn open(path: &Path) -> FileDevice {
    FileDevice::open(path, OpenOptions { read_only: true, direct: false }).unwrap()
}

#[test]
fn fresh_volumes() {
    let cases: &[(u64, &[&str])] = &[
        (60 * MIB, &[]),
        (256 * MIB, &[]),
        (300 * MIB, &["-i"]),
        (1024 * MIB, &["-s", "4", "-z", "2"]),
        (512 * MIB, &["-O", ALL]),
        (512 * MIB, &["-O", "casefold", "-C", "utf8"]),
        (512 * MIB, &["-O", "lost_found"]),
        (512 * MIB, &["-O", "ro"]),
        (64 << 30, &["-i"]),
        // Bitmaps that need payload blocks, in both placements.
        (400 << 30, &["-i"]),
        (4 << 40, &[]),
    ];
    let dir = tempfile::tempdir().unwrap();
    for &(bytes, args) in cases {
        let path = dir.path().join("image");
        mkfs(&path, bytes, args);
        let found = report(&open(&path));
        assert!(found.complete && found.problems.is_empty(), "{bytes} {args:?}\n{}", text(&found));
        assert_eq!(found.summary.nodes, found.summary.inodes, "{bytes} {args:?}");
    }
}

#[test]
fn filled_volumes() {
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &[]),
        (&["-i"], &["-t", "/sub"]),
        (&["-s", "2"], &["-P"]),
        (&["-O", "extra_attr,inode_checksum,quota,project_quota,lost_found"], &["-P"]),
        (&["-O", "casefold", "-C", "utf8"], &[]),
    ];
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    populate(&source);
    for &(mkfs_args, sload_args) in cases {
        let path = dir.path().join("image");
        mkfs(&path, 256 * MIB, mkfs_args);
        sload(&path, &source, sload_args);
        let found = report(&open(&path));
        assert!(found.complete && found.problems.is_empty(), "{mkfs_args:?}\n{}", text(&found));
        assert!(found.summary.files >= 706 && found.summary.symlinks == 2, "{:?}", found.summary);
        assert!(found.summary.data_blocks >= 3005, "{:?}", found.summary);
    }
}
