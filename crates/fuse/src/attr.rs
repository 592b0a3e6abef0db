//! Attributes, inode numbers, times and errors in both vocabularies.
use crate::wire::{AttrOut, EntryOut, ROOT, Statx, StatxOut, SxTime};
use rustix::io::Errno;
use segno_engine::{Attr, Error, Time};
use segno_format::dentry::FileType;
use segno_format::{Ino, Nid};
use std::time::{SystemTime, UNIX_EPOCH};

/// Only this mount changes the volume, so what the kernel caches stays true until it sends a request that changes it.
/// Where it does not expect the change, the server notifies it (`notify`).
const FOREVER: u64 = 1 << 31;
const BLOCK: u32 = 4096;
/// All that stat(2) has, and the birth time.
const STATX_MASK: u32 = 0xfff;

/// FUSE calls the root 1; on the volume 1 is reserved and the root has a number of its own.
pub fn ino_of(node: u64) -> Ino {
    match u32::try_from(node) {
        Ok(1) => Nid::ROOT,
        Ok(n) if Nid(n) != Nid::ROOT => Nid(n),
        // No such inode exists, so the engine answers ENOENT. File handles may hold any number.
        Ok(_) | Err(_) => Nid::NONE,
    }
}

/// The number FUSE knows an inode by.
pub fn node_of(ino: Ino) -> u64 {
    if ino == Nid::ROOT { ROOT } else { ino.0.into() }
}

/// The type bits of a mode, as directory entries carry them.
pub fn dirent_kind(kind: FileType) -> u32 {
    match kind {
        FileType::Fifo => 1,
        FileType::CharDevice => 2,
        FileType::Directory => 4,
        FileType::BlockDevice => 6,
        FileType::Regular => 8,
        FileType::Symlink => 10,
        FileType::Socket => 12,
        FileType::Unknown => 0,
    }
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

pub fn attr_out(a: &Attr) -> AttrOut {
    AttrOut { attr_valid: FOREVER, attr_valid_nsec: 0, dummy: 0, attr: wire_attr(a) }
}

/// What a name leads to.
pub fn entry_out(a: &Attr) -> EntryOut {
    EntryOut {
        nodeid: node_of(a.ino),
        // The kernel expects 0 for the root.
        generation: if a.ino == Nid::ROOT { 0 } else { a.generation.into() },
        entry_valid: FOREVER,
        attr_valid: FOREVER,
        attr: wire_attr(a),
        ..EntryOut::default()
    }
}

/// The new name of an inode that the kernel may know. Unlike other replies this one also replaces attributes that were
/// invalidated while the request was served, so set-user-ID that a write has cleared meanwhile must not stay.
pub fn link_out(a: &Attr) -> EntryOut {
    let attr_valid = if a.mode & 0o6000 == 0 { FOREVER } else { 0 };
    EntryOut { attr_valid, ..entry_out(a) }
}

/// "There is no such name", worth remembering.
pub fn no_entry() -> EntryOut {
    EntryOut { entry_valid: FOREVER, ..EntryOut::default() }
}

pub fn statx_out(a: &Attr) -> StatxOut {
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
    StatxOut { attr_valid: FOREVER, stat, ..StatxOut::default() }
}

/// Major and minor of a device number as FUSE carries it.
pub fn rdev_of(raw: u32) -> (u32, u32) {
    (raw >> 8 & 0xfff, (raw & 0xff) | (raw >> 12 & 0xf_ff00))
}

/// The machine's time.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { secs: since.as_secs().cast_signed(), nsec: since.subsec_nanos() }
}

/// The errno of an engine error.
pub fn errno(e: Error) -> Errno {
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
        assert_eq!((ino_of(1), node_of(Nid::ROOT)), (Nid::ROOT, 1));
        assert_eq!((ino_of(77), ino_of(1 << 40)), (Nid(77), Nid::NONE));
        assert_eq!(ino_of(Nid::ROOT.0.into()), Nid::NONE);
    }
}
