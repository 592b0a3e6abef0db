//! The ioctls of block devices that have no safe wrapper.
#![allow(unsafe_code)]
use linux_raw_sys::loop_device::loop_info64;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, Updater, ioctl, opcode};
use std::io;

const BLKROGET: Opcode = opcode::none(0x12, 94);
const BLKDISCARD: Opcode = opcode::none(0x12, 119);
/// The size encoded in the number is that of the report's header.
const BLKREPORTZONE: Opcode = opcode::read_write::<[u64; 2]>(0x12, 130);
const BLKRESETZONE: Opcode = opcode::write::<[u64; 2]>(0x12, 131);
const BLKGETZONESZ: Opcode = opcode::read::<u32>(0x12, 132);
const BLKFINISHZONE: Opcode = opcode::write::<[u64; 2]>(0x12, 136);

const LOOP_GET_STATUS64: Opcode = linux_raw_sys::loop_device::LOOP_GET_STATUS64;

/// Zones requested in one call.
const REPORT_ZONES: usize = 256;

/// `struct blk_zone`: a zone in sectors of 512 bytes.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct RawZone {
    pub start: u64,
    pub len: u64,
    pub pointer: u64,
    pub kind: u8,
    pub condition: u8,
    pub flags: [u8; 6],
    pub capacity: u64,
    pub reserved: [u8; 24],
}

/// `struct blk_zone_report` with room for zones.
#[repr(C)]
struct Report {
    sector: u64,
    count: u32,
    flags: u32,
    zones: [RawZone; REPORT_ZONES],
}

/// The backing file of a loop device.
pub(crate) fn loop_status(fd: impl AsFd) -> io::Result<loop_info64> {
    // SAFETY: LOOP_GET_STATUS64 writes one `struct loop_info64` to its argument, for which all bytes are valid.
    Ok(unsafe { ioctl(fd, Getter::<LOOP_GET_STATUS64, loop_info64>::new()) }?)
}

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

/// Sectors of each zone of a block device; 0 if it has no zones.
pub(crate) fn zone_sectors(fd: impl AsFd) -> io::Result<u32> {
    // SAFETY: BLKGETZONESZ writes one u32 to its argument.
    match unsafe { ioctl(fd, Getter::<BLKGETZONESZ, u32>::new()) } {
        // A kernel without support for zones.
        Err(Errno::NOTTY) => Ok(0),
        other => Ok(other?),
    }
}

/// Zones starting with the one that contains a sector, not necessarily all, and the flags of the report.
pub(crate) fn report_zones(fd: impl AsFd, sector: u64) -> io::Result<(Vec<RawZone>, u32)> {
    let count = REPORT_ZONES as u32;
    let mut report = Report { sector, count, flags: 0, zones: [RawZone::default(); REPORT_ZONES] };
    // SAFETY: BLKREPORTZONE writes the header and up to `count` zones after it, and `Report` has room for
    // these.
    unsafe { ioctl(fd, Updater::<BLKREPORTZONE, Report>::new(&mut report)) }?;
    Ok((report.zones.into_iter().take(report.count as usize).collect(), report.flags))
}

/// Resets whole zones, given as first sector and number of sectors.
pub(crate) fn reset_zones(fd: impl AsFd, range: [u64; 2]) -> io::Result<()> {
    // SAFETY: BLKRESETZONE reads two u64 from its argument and keeps no pointer to them.
    Ok(unsafe { ioctl(fd, Setter::<BLKRESETZONE, [u64; 2]>::new(range)) }?)
}

/// Finishes whole zones, given as first sector and number of sectors.
pub(crate) fn finish_zones(fd: impl AsFd, range: [u64; 2]) -> io::Result<()> {
    // SAFETY: BLKFINISHZONE reads two u64 from its argument and keeps no pointer to them.
    Ok(unsafe { ioctl(fd, Setter::<BLKFINISHZONE, [u64; 2]>::new(range)) }?)
}

const _: () = assert!(size_of::<RawZone>() == 64 && size_of::<Report>() == 16 + 64 * REPORT_ZONES);
