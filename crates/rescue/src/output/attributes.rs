//! Owner, mode, times and extended attributes on the target.
use super::OutputOptions;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use segno_format::inode::RawInode;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Without privilege everything belongs to the caller. An owner that no file can have is left out.
pub(super) fn owner(to: &impl AsFd, raw: &RawInode, privileged: bool) -> Result<(), Errno> {
    let (uid, gid) = owners(raw);
    if privileged { rustix::fs::fchown(to, uid, gid) } else { Ok(()) }
}

fn owners(raw: &RawInode) -> (Option<Uid>, Option<Gid>) {
    let known = |id: u32| (id != u32::MAX).then_some(id);
    (known(raw.i_uid.get()).map(Uid::from_raw), known(raw.i_gid.get()).map(Gid::from_raw))
}

/// Whether the target took it: it may not support these attributes, have no room for them, or not permit them to this user.
pub(super) fn xattr(to: &impl AsFd, name: &[u8], value: &[u8]) -> bool {
    rustix::fs::fsetxattr(to, OsStr::from_bytes(name), value, XattrFlags::empty()).is_ok()
}

pub(super) fn mode_and_times(to: &impl AsFd, raw: &RawInode, options: OutputOptions) -> Result<(), Errno> {
    rustix::fs::fchmod(to, mode(raw, options))?;
    rustix::fs::futimens(to, &times(raw))
}

/// Of a file that cannot be opened; a symbolic link has no mode.
pub(super) fn at(
    dir: &OwnedFd,
    name: &OsStr,
    raw: &RawInode,
    options: Option<OutputOptions>,
    privileged: bool,
) -> Result<(), Errno> {
    if privileged {
        let (uid, gid) = owners(raw);
        rustix::fs::chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if let Some(options) = options {
        rustix::fs::chmodat(dir, name, mode(raw, options), AtFlags::empty())?;
    }
    rustix::fs::utimensat(dir, name, &times(raw), AtFlags::SYMLINK_NOFOLLOW)
}

fn mode(raw: &RawInode, options: OutputOptions) -> Mode {
    let kept = if options.set_ids { 0o7777 } else { 0o1777 };
    Mode::from_raw_mode(u32::from(raw.i_mode.get()) & kept)
}

fn times(raw: &RawInode) -> Timestamps {
    let time =
        |secs: u64, nsec: u32| Timespec { tv_sec: secs.cast_signed(), tv_nsec: nsec.min(999_999_999).into() };
    Timestamps {
        last_access: time(raw.i_atime.get(), raw.i_atime_nsec.get()),
        last_modification: time(raw.i_mtime.get(), raw.i_mtime_nsec.get()),
    }
}
