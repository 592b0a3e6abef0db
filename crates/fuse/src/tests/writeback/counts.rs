//! Number of requests per system call with the writeback cache.
use super::each_cached;
use crate::probe::probe_no_open;
use crate::tests::counts::cost;
use crate::wire::Opcode::*;
use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

#[test]
fn small_files() {
    each_cached(
        |mount| {
            probe_no_open(mount.path());
            // The first file lets the kernel learn which requests return ENOSYS, and cache the root.
            fs::write(mount.path().join("warm"), "x").unwrap();
            assert!(fs::metadata(mount.path().join("warm")).is_ok());
            fs::read_dir(mount.path()).unwrap().for_each(drop);
            fs::write(mount.path().join("warm2"), "x").unwrap();

            cost(mount, |d| drop(File::create(d.join("a")).unwrap()), &[Lookup, Create]);
            // The kernel sends data and times when the file is closed.
            let small = |name| move |d: &std::path::Path| fs::write(d.join(name), [1; 4096]).unwrap();
            cost(mount, small("b"), &[Lookup, Create, GetXattr, Write, SetAttr]);
            // At each close the kernel forgets the number of blocks, which writeback may have changed.
            let stat = |d: &std::path::Path| assert_eq!(fs::metadata(d.join("b")).unwrap().len(), 4096);
            cost(mount, stat, &[GetAttr]);
            cost(mount, stat, &[]);
            cost(mount, |d| drop(File::open(d.join("b")).unwrap()), &[]);
            cost(mount, stat, &[GetAttr]);
            // The kernel sends the ctime of the inode that lost a name.
            cost(mount, |d| fs::remove_file(d.join("b")).unwrap(), &[Unlink, SetAttr]);
            cost(mount, |d| fs::remove_file(d.join("a")).unwrap(), &[Unlink, SetAttr]);
        },
        &[],
    );
}

#[test]
fn many_writes_are_one_request() {
    each_cached(
        |mount| {
            probe_no_open(mount.path());
            let mut file = File::create(mount.path().join("f")).unwrap();
            file.write_all(b"first").unwrap();
            file.sync_all().unwrap();
            // Within one tick of the kernel's clock the times stay, and none are sent.
            std::thread::sleep(Duration::from_millis(30));
            let append = |_: &std::path::Path| {
                (0..1000).for_each(|_| file.write_all(b"four").unwrap());
                file.sync_all().unwrap();
            };
            cost(mount, append, &[Write, SetAttr, Fsync]);
        },
        &[],
    );
}
