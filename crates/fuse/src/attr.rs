//! Attributes, inode numbers, times and errors in both vocabularies.
use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use segno_engine::{Attr, Error, Time};
use segno_format::dentry::FileType as Kind;
use segno_format::{Ino, Nid};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// FUSE calls the root 1; on the volume 1 is reserved and the root has a number of its own.
pub fn ino_of(node: INodeNo) -> Ino {
    match u32::try_from(node.0) {
        Ok(1) => Nid::ROOT,
        Ok(n) => Nid(n),
        // No such inode exists, so the engine answers ENOENT.
        Err(_) => Nid::NONE,
    }
}

/// The number FUSE knows an inode by.
pub fn node_of(ino: Ino) -> INodeNo {
    INodeNo(if ino == Nid::ROOT { 1 } else { ino.0.into() })
}

pub fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::Symlink => FileType::Symlink,
        Kind::Regular | Kind::Unknown => FileType::RegularFile,
    }
}

pub fn file_attr(a: &Attr) -> FileAttr {
    let (major, minor) = a.rdev;
    FileAttr {
        ino: INodeNo(a.ino.0.into()),
        size: a.size,
        blocks: a.blocks,
        atime: system_time(a.atime),
        mtime: system_time(a.mtime),
        ctime: system_time(a.ctime),
        crtime: a.crtime.map_or(UNIX_EPOCH, system_time),
        kind: file_type(a.kind),
        perm: a.mode & 0o7777,
        nlink: a.nlink,
        uid: a.uid,
        gid: a.gid,
        rdev: (minor & 0xff) | major << 8 | (minor & !0xff) << 12,
        blksize: 4096,
        flags: 0,
    }
}

/// Major and minor of a device number as FUSE carries it.
pub fn rdev_of(raw: u32) -> (u32, u32) {
    (raw >> 8 & 0xfff, (raw & 0xff) | (raw >> 12 & 0xf_ff00))
}

fn system_time(t: Time) -> SystemTime {
    let nanos = Duration::from_nanos(t.nsec.into());
    let whole = Duration::from_secs(t.secs.unsigned_abs());
    let base = if t.secs < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    base.and_then(|b| b.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

/// The engine's time for a time of the caller's.
pub fn time_of(t: SystemTime) -> Time {
    match t.duration_since(UNIX_EPOCH) {
        Ok(d) => Time { secs: d.as_secs().cast_signed(), nsec: d.subsec_nanos() },
        Err(e) => {
            let d = e.duration();
            let (secs, nsec) = (d.as_secs().cast_signed(), d.subsec_nanos());
            if nsec == 0 {
                Time { secs: -secs, nsec: 0 }
            } else {
                Time { secs: -secs - 1, nsec: 1_000_000_000 - nsec }
            }
        }
    }
}

pub fn time_or_now(t: TimeOrNow) -> Time {
    match t {
        TimeOrNow::SpecificTime(t) => time_of(t),
        TimeOrNow::Now => time_of(SystemTime::now()),
    }
}

pub fn errno(e: &Error) -> Errno {
    Errno::from_i32(e.errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_survive() {
        for t in [Time { secs: -5, nsec: 7 }, Time { secs: -1, nsec: 0 }, Time { secs: 9, nsec: 999_999_999 }]
        {
            assert_eq!(time_of(system_time(t)), t);
        }
    }
}
