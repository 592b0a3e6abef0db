//! Timestamps in the inode block.
use crate::types::Time;
use segno_format::inode::RawInode;
use zerocopy::little_endian::{U32, U64};

pub fn set_atime(i: &mut RawInode, t: Time) {
    i.i_atime = U64::new(t.secs.cast_unsigned());
    i.i_atime_nsec = U32::new(t.nsec);
}

pub fn set_ctime(i: &mut RawInode, t: Time) {
    i.i_ctime = U64::new(t.secs.cast_unsigned());
    i.i_ctime_nsec = U32::new(t.nsec);
}

pub fn set_mtime(i: &mut RawInode, t: Time) {
    i.i_mtime = U64::new(t.secs.cast_unsigned());
    i.i_mtime_nsec = U32::new(t.nsec);
}

/// Sets mtime and ctime after a change of content.
pub fn touch(i: &mut RawInode, now: Time) {
    set_mtime(i, now);
    set_ctime(i, now);
}

/// A time as the inode block has it.
pub fn time(secs: U64, nsec: U32) -> Time {
    Time { secs: secs.get().cast_signed(), nsec: nsec.get() }
}
