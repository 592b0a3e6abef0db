//! Conversion of attributes, inode numbers, times and errors between the engine and the protocol.
use crate::wire::{AttrOut, EntryOut, ROOT, Statx, StatxOut, SxTime};
use rustix::io::Errno;
use segno_engine::{Attr, Error, Time};
use segno_format::Ino;

/// How a client is informed of changes that its own requests do not reveal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrCaching {
    /// By notifications.
    Notified,
    /// Not at all. A write may clear set-user-ID and set-group-ID, so attributes with these bits expire at once.
    Unnotified,
}

impl AttrCaching {
    /// How long attributes may be used, in seconds.
    fn valid(self, a: &Attr) -> u64 {
        let has_set_id = a.mode & 0o170_000 == 0o100_000 && a.mode & 0o6000 != 0;
        if a.unsettled || self == Self::Unnotified && has_set_id { 0 } else { FOREVER }
    }
}

/// Only this mount changes the volume, so cached names and attributes are valid until a request changes them. If the
/// kernel does not expect a change, the server sends an invalidation (`notify`).
pub const FOREVER: u64 = 1 << 31;
const BLOCK: u32 = 4096;
/// All fields of stat(2), and the birth time.
const STATX_MASK: u32 = 0xfff;

/// The inode number of a FUSE node. The root is node 1 in FUSE; on the volume, 1 is reserved for another inode.
pub fn ino_of(node: u64) -> Ino {
    match u32::try_from(node) {
        Ok(1) => Ino::ROOT,
        Ok(n) if Ino(n) != Ino::ROOT => Ino(n),
        // File handles may hold any number. This inode does not exist, so the engine returns ENOENT.
        Ok(_) | Err(_) => Ino::NONE,
    }
}

/// The FUSE node of an inode number.
pub(crate) fn node_of(ino: Ino) -> u64 {
    if ino == Ino::ROOT { ROOT } else { ino.0.into() }
}

fn wire_attr(a: &Attr) -> crate::wire::Attr {
    let (major, minor) = a.rdev;
    crate::wire::Attr {
        ino: a.ino.0.into(),
        size: a.size,
        blocks: a.blocks,
        atime: a.atime.secs.cast_unsigned(),
        mtime: a.mtime.secs.cast_unsigned(),
        ctime: a.ctime.secs.cast_unsigned(),
        atimensec: a.atime.nsec,
        mtimensec: a.mtime.nsec,
        ctimensec: a.ctime.nsec,
        mode: a.mode.into(),
        nlink: a.nlink,
        uid: a.uid,
        gid: a.gid,
        rdev: (minor & 0xff) | major << 8 | (minor & !0xff) << 12,
        blksize: BLOCK,
        flags: 0,
    }
}

/// The reply with attributes.
pub fn attr_out(a: &Attr, caching: AttrCaching) -> AttrOut {
    AttrOut { attr_valid: caching.valid(a), attr_valid_nsec: 0, dummy: 0, attr: wire_attr(a) }
}

/// Reply to a successful lookup. The name may be used for `entry_valid` seconds.
pub fn entry_out(a: &Attr, entry_valid: u64, caching: AttrCaching) -> EntryOut {
    EntryOut {
        nodeid: node_of(a.ino),
        // The kernel expects 0 for the root.
        generation: if a.ino == Ino::ROOT { 0 } else { a.generation.into() },
        entry_valid,
        attr_valid: caching.valid(a),
        attr: wire_attr(a),
        ..EntryOut::default()
    }
}

/// Reply to LINK, whose inode the kernel may have cached. Unlike other replies it also replaces attributes that were
/// invalidated while the request was served. So attributes with set-user-ID or set-group-ID, which a write may have
/// cleared meanwhile, expire at once.
pub(crate) fn link_out(a: &Attr, entry_valid: u64) -> EntryOut {
    entry_out(a, entry_valid, AttrCaching::Unnotified)
}

/// A negative entry, which the kernel caches.
pub fn no_entry() -> EntryOut {
    EntryOut { entry_valid: FOREVER, ..EntryOut::default() }
}

pub(crate) fn statx_out(a: &Attr, caching: AttrCaching) -> StatxOut {
    let time = |t: Time| SxTime { sec: t.secs, nsec: t.nsec, reserved: 0 };
    let no_birth = if a.crtime.is_some() { 0 } else { 0x800 };
    let stat = Statx {
        mask: STATX_MASK & !no_birth,
        blksize: BLOCK,
        nlink: a.nlink,
        uid: a.uid,
        gid: a.gid,
        mode: a.mode,
        ino: a.ino.0.into(),
        size: a.size,
        blocks: a.blocks,
        atime: time(a.atime),
        btime: time(a.crtime.unwrap_or_default()),
        ctime: time(a.ctime),
        mtime: time(a.mtime),
        rdev_major: a.rdev.0,
        rdev_minor: a.rdev.1,
        ..Statx::default()
    };
    StatxOut { attr_valid: caching.valid(a), stat, ..StatxOut::default() }
}

/// Major and minor number of a device number in FUSE's encoding.
pub fn rdev_of(raw: u32) -> (u32, u32) {
    (raw >> 8 & 0xfff, (raw & 0xff) | (raw >> 12 & 0xf_ff00))
}

/// The errno of an engine error.
pub(crate) fn errno(e: Error) -> Errno {
    Errno::from_raw_os_error(e.errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_devices_and_inodes_survive() {
        for (major, minor) in [(0, 0), (8, 1), (4095, 0xf_ffff), (1, 256)] {
            let raw = (minor & 0xff) | major << 8 | (minor & !0xff) << 12;
            assert_eq!(rdev_of(raw), (major, minor));
        }
        assert_eq!((ino_of(1), node_of(Ino::ROOT)), (Ino::ROOT, 1));
        assert_eq!((ino_of(77), ino_of(1 << 40)), (Ino(77), Ino::NONE));
        assert_eq!(ino_of(Ino::ROOT.0.into()), Ino::NONE);
    }
}
