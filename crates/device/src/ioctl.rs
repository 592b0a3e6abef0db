//! The ioctls of block devices that have no safe wrapper.
#![allow(unsafe_code)]
use rustix::fd::AsFd;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};
use std::io;

const BLKROGET: Opcode = opcode::none(0x12, 94);
const BLKDISCARD: Opcode = opcode::none(0x12, 119);

/// Discards bytes of a block device.
pub(crate) fn blkdiscard(fd: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    // SAFETY: BLKDISCARD reads two u64 (offset and length) from its argument and keeps no pointer to them.
    Ok(unsafe { ioctl(fd, Setter::<BLKDISCARD, [u64; 2]>::new([offset, len])) }?)
}

/// Whether the block device is write-protected.
pub(crate) fn blkroget(fd: impl AsFd) -> io::Result<bool> {
    // SAFETY: BLKROGET writes one C int to its argument.
    Ok(unsafe { ioctl(fd, Getter::<BLKROGET, i32>::new()) }? != 0)
}
