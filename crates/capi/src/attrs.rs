//! Attributes.
use crate::args::put;
use crate::error::{Failure, done};
use crate::volume::{on, segno_volume};
use segno::{Metadata, SetMetadata, Time, Volume};
use std::ffi::{c_char, c_int};
use std::path::Path;

/// A point in time since 1970-01-01 UTC.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct segno_time {
    /// Seconds, negative before 1970.
    pub sec: i64,
    /// Nanoseconds within the second.
    pub nsec: u32,
    /// Zero.
    pub unused: u32,
}

impl From<Time> for segno_time {
    fn from(t: Time) -> Self {
        Self { sec: t.secs, nsec: t.nsec, unused: 0 }
    }
}

impl From<segno_time> for Time {
    fn from(t: segno_time) -> Self {
        Self { secs: t.sec, nsec: t.nsec.min(999_999_999) }
    }
}

/// Attributes of a file.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct segno_stat_t {
    /// Size in bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Inode number.
    pub ino: u32,
    /// Number of names.
    pub nlink: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project.
    pub project: u32,
    /// Of a device node, else 0.
    pub major: u32,
    /// Of a device node, else 0.
    pub minor: u32,
    /// Flags that chattr(1) shows.
    pub flags: u32,
    /// Tells apart files that had the same inode number one after the other.
    pub generation: u32,
    /// Last access.
    pub atime: segno_time,
    /// Last change of content.
    pub mtime: segno_time,
    /// Last change of content or attributes.
    pub ctime: segno_time,
    /// Creation; zeros on volumes that do not store it.
    pub btime: segno_time,
}

impl From<Metadata> for segno_stat_t {
    fn from(m: Metadata) -> Self {
        let (major, minor) = m.device_number();
        Self {
            size: m.len(),
            blocks: m.blocks(),
            mode: m.mode(),
            ino: m.ino(),
            nlink: m.nlink(),
            uid: m.uid(),
            gid: m.gid(),
            project: m.project(),
            major,
            minor,
            flags: m.flags().bits(),
            generation: m.generation(),
            atime: m.accessed().into(),
            mtime: m.modified().into(),
            ctime: m.changed().into(),
            btime: m.created().unwrap_or_default().into(),
        }
    }
}

/// Attributes of the file at a path. With `nofollow`, a symbolic link at its end is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_stat(
    volume: *mut segno_volume,
    name: *const c_char,
    nofollow: c_int,
    into: *mut segno_stat_t,
) -> c_int {
    done(|| {
        let find = |v: &Volume, name: &Path| match nofollow {
            0 => v.metadata(name),
            _ => v.symlink_metadata(name),
        };
        // SAFETY: the caller's promise of segno.h.
        let found = unsafe { on(volume, name, find) }?;
        // SAFETY: the caller's promise of segno.h.
        unsafe { put(into, found.into(), "place for the result") }
    })
}

/// # Safety
/// As the functions of segno.h.
unsafe fn set(
    volume: *mut segno_volume,
    name: *const c_char,
    nofollow: c_int,
    change: &SetMetadata,
) -> Result<(), Failure> {
    let set = |v: &Volume, name: &Path| match nofollow {
        0 => v.set_metadata(name, change),
        _ => v.set_symlink_metadata(name, change),
    };
    // SAFETY: the requirements of this function.
    unsafe { on(volume, name, set) }
}

/// Sets permission bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_chmod(volume: *mut segno_volume, name: *const c_char, mode: u32) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    done(|| unsafe { set(volume, name, 0, &SetMetadata::new().mode(mode)) })
}

/// Sets user and group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_chown(
    volume: *mut segno_volume,
    name: *const c_char,
    uid: u32,
    gid: u32,
    nofollow: c_int,
) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    done(|| unsafe { set(volume, name, nofollow, &SetMetadata::new().owner(uid, gid)) })
}

/// Sets the times of the last access and of the last change of content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_utimes(
    volume: *mut segno_volume,
    name: *const c_char,
    atime: segno_time,
    mtime: segno_time,
    nofollow: c_int,
) -> c_int {
    let change = SetMetadata::new().accessed(Time::from(atime)).modified(Time::from(mtime));
    // SAFETY: the caller's promise of segno.h.
    done(|| unsafe { set(volume, name, nofollow, &change) })
}

/// Cuts a file, or extends it by a hole that reads as zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_truncate(volume: *mut segno_volume, name: *const c_char, size: u64) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    done(|| unsafe { on(volume, name, |v, name| v.set_len(name, size)) })
}
