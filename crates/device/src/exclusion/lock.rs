//! Advisory locks of an open file: flock(2), which earlier versions take too, and an OFD lock on the range of bytes in use, which
//! virtual machine monitors respect.
#![allow(unsafe_code)]
use crate::location::WHOLE;
use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

/// A file that is unlocked when dropped. Closing alone would not do: a process being started by another thread shares
/// the descriptor, and with it the locks, until it executes its program.
#[derive(Debug)]
pub(crate) struct LockedFile(pub(crate) File);

impl Deref for LockedFile {
    type Target = File;
    fn deref(&self) -> &File {
        &self.0
    }
}

impl AsFd for LockedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Fails on devices that were never locked.
        let _unlocked = flock(&self.0, FlockOperation::Unlock);
        let _unlocked = lock_range(&self.0, libc::F_UNLCK, &WHOLE);
    }
}

/// Locks a range against other users, with `shared` only against writers; false if it is in use. A user of a part shares the
/// flock(2) with users of other parts.
pub(crate) fn lock(file: &File, shared: bool, range: &Range<u64>) -> io::Result<bool> {
    // udev takes flock(2) on block devices; `O_EXCL` is the lock of those.
    if file.metadata()?.is_file() {
        let operation = match shared || *range != WHOLE {
            true => FlockOperation::NonBlockingLockShared,
            false => FlockOperation::NonBlockingLockExclusive,
        };
        match flock(file, operation) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(e) => return Err(e.into()),
        }
    }
    match lock_range(file, if shared { libc::F_RDLCK } else { libc::F_WRLCK }, range) {
        Err(Errno::AGAIN | Errno::ACCESS) => {
            // So that the lock owners found are others. Fails on devices, which have none.
            let _unlocked = flock(file, FlockOperation::Unlock);
            Ok(false)
        }
        // File systems without range locks, or a file that is open for reading: flock(2) or `O_EXCL` has to do.
        Ok(()) | Err(Errno::INVAL | Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::BADF) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

fn lock_range(file: &File, kind: i32, range: &Range<u64>) -> Result<(), Errno> {
    let start = i64::try_from(range.start).unwrap_or(i64::MAX);
    let end = i64::try_from(range.end).ok();
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        // 0 is up to the end, wherever that will be.
        l_len: end.map_or(0, |end| end.saturating_sub(start)),
        l_pid: 0,
    };
    // SAFETY: F_OFD_SETLK reads one `struct flock` through the pointer and keeps none.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// The processes that hold flock(2) locks of a file, as far as /proc shows them.
pub(crate) fn lock_owners(file: &File) -> Vec<u32> {
    let (Ok(meta), Ok(locks)) = (file.metadata(), std::fs::read_to_string("/proc/locks")) else {
        return Vec::new();
    };
    lock_owners_in(&locks, meta.dev(), meta.ino())
}

/// Lines are `N: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`; waiting requests have `->` after the number.
fn lock_owners_in(locks: &str, dev: u64, ino: u64) -> Vec<u32> {
    let id = format!("{:02x}:{:02x}:{ino}", major(dev), minor(dev));
    let pid = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields.as_slice() {
            [_, "FLOCK", _, _, pid, at, ..] if *at == id => pid.parse().ok(),
            _ => None,
        }
    };
    locks.lines().filter_map(pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::NamedTempFile, impl Fn() -> File) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        (file, move || File::options().read(true).write(true).open(&path).unwrap())
    }

    #[test]
    fn parts_of_a_file_have_a_writer_each_and_the_whole_has_none_then() {
        let (_file, open) = file();
        let parts = [open(), open(), open()];
        assert!(lock(&parts[0], false, &(0..4096)).unwrap());
        assert!(lock(&parts[1], false, &(4096..8192)).unwrap());
        assert!(!lock(&parts[2], true, &(8191..9000)).unwrap());
        for shared in [false, true] {
            assert!(!lock(&open(), shared, &WHOLE).unwrap(), "shared {shared}");
        }
    }

    #[test]
    fn a_lock_of_an_earlier_version_is_seen() {
        let (_file, open) = file();
        let old = open();
        flock(&old, FlockOperation::NonBlockingLockShared).unwrap();
        assert!(!lock(&open(), false, &WHOLE).unwrap() && lock(&open(), true, &WHOLE).unwrap());
        flock(&old, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(!lock(&open(), true, &WHOLE).unwrap());
    }

    /// QEMU takes read locks on single bytes from 100 and 200 on.
    #[test]
    fn locks_of_a_virtual_machine_keep_writers_out() {
        let (_file, open) = file();
        let guest = open();
        lock_range(&guest, libc::F_RDLCK, &(101..102)).unwrap();
        let refused = open();
        assert!(!lock(&refused, false, &WHOLE).unwrap() && lock_owners(&refused).is_empty());
    }

    #[test]
    fn lock_owners_are_found_by_device_and_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:55 0 EOF\n2: FLOCK  ADVISORY  WRITE 1234 08:01:55 0 EOF\n\
                     2: -> FLOCK  ADVISORY  READ 99 08:01:55 0 EOF\n3: FLOCK  ADVISORY  READ 5 08:02:55 0 EOF\n";
        assert_eq!(lock_owners_in(locks, rustix::fs::makedev(8, 1), 55), [1234]);
        let (_file, open) = file();
        let held = LockedFile(open());
        assert!(lock(&held, false, &WHOLE).unwrap());
        assert_eq!(lock_owners(&held), [std::process::id()]);
        drop(held);
        assert!(lock(&open(), false, &WHOLE).unwrap());
    }
}
