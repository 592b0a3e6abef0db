//! Owner, extended attributes, mode and times, set through descriptors.
use crate::{Entry, Kind, LeftOut, Preserve};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::fs::{chmodat, chownat, fchmod, fsetxattr, futimens, setxattr, utimensat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Metadata of a file.
#[derive(Clone, Debug, Default)]
pub struct Attributes<'a> {
    /// Permission bits with set-user-ID, set-group-ID and sticky bit.
    pub mode: u32,
    /// User; `u32::MAX` leaves it unchanged.
    pub uid: u32,
    /// Group; `u32::MAX` leaves it unchanged.
    pub gid: u32,
    /// Seconds and nanoseconds of the last access.
    pub accessed: (i64, u32),
    /// Seconds and nanoseconds of the last modification.
    pub modified: (i64, u32),
    /// Names and values of extended attributes.
    pub xattrs: Vec<(&'a [u8], &'a [u8])>,
}

/// A file on the host whose attributes are set.
pub(crate) enum Object<'a> {
    /// Opened for reading or writing.
    Open(BorrowedFd<'a>),
    /// Not opened, as that would wait or reach a device; with the path of its descriptor.
    Held(&'a Entry, PathBuf),
}

impl Object<'_> {
    fn chown(&self, uid: Option<Uid>, gid: Option<Gid>) -> Result<(), Errno> {
        let fd = match self {
            Self::Open(fd) => *fd,
            Self::Held(entry, _) => entry.as_fd(),
        };
        chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)
    }

    fn xattr(&self, name: &OsStr, value: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Open(fd) => fsetxattr(fd, name, value, XattrFlags::empty()),
            Self::Held(_, path) => setxattr(path, name, value, XattrFlags::empty()),
        }
    }

    fn chmod(&self, mode: Mode) -> Result<(), Errno> {
        match self {
            Self::Open(fd) => fchmod(fd, mode),
            // Linux does not change the mode of a symbolic link.
            Self::Held(entry, _) if entry.kind() == Kind::Symlink => Ok(()),
            Self::Held(_, path) => chmodat(CWD, path, mode, AtFlags::empty()),
        }
    }

    fn times(&self, times: &Timestamps) -> Result<(), Errno> {
        match self {
            Self::Open(fd) => futimens(fd, times),
            Self::Held(_, path) => utimensat(CWD, path, times, AtFlags::empty()),
        }
    }
}

impl Attributes<'_> {
    /// Sets all of them; the result is the number of extended attributes that the host refused: it may not support them, have no
    /// room for them, or not permit them to this user. The order matters: a change of the owner clears set-ID bits and
    /// capabilities, and an ACL changes the mode.
    pub(crate) fn set(
        &self,
        object: &Object<'_>,
        preserve: Preserve,
        privileged: bool,
        left_out: &mut LeftOut,
    ) -> Result<u32, Errno> {
        let known = |id: u32| (id != u32::MAX).then_some(id);
        if privileged {
            object.chown(known(self.uid).map(Uid::from_raw), known(self.gid).map(Gid::from_raw))?;
        }
        let mut refused = 0;
        for (name, value) in preserve.xattrs(&self.xattrs, left_out) {
            match object.xattr(OsStr::from_bytes(name), value) {
                Err(
                    Errno::OPNOTSUPP
                    | Errno::PERM
                    | Errno::ACCESS
                    | Errno::INVAL
                    | Errno::RANGE
                    | Errno::NOSPC
                    | Errno::DQUOT
                    | Errno::TOOBIG,
                ) => refused += 1,
                set => set?,
            }
        }
        object.chmod(Mode::from_raw_mode(preserve.mode(self.mode, left_out)))?;
        let time = |(tv_sec, nsec): (i64, u32)| Timespec { tv_sec, tv_nsec: nsec.min(999_999_999).into() };
        object.times(&Timestamps {
            last_access: time(self.accessed),
            last_modification: time(self.modified),
        })?;
        Ok(refused)
    }
}
