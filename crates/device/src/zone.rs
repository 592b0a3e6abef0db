//! Zones: ranges of a device that are written from start to end and emptied as a whole.
use std::io;

/// What may be written where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneKind {
    /// Like any other device.
    Conventional,
    /// Only at the write pointer.
    Sequential,
}

/// Where a zone is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneCondition {
    /// A conventional zone has none.
    NoPointer,
    Empty,
    /// Opened by a write.
    ImplicitOpen,
    ExplicitOpen,
    Closed,
    Full,
    ReadOnly,
    Offline,
}

/// One zone. Addresses and lengths in 4 KiB blocks, from the start of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    pub start: u64,
    pub blocks: u64,
    /// Blocks that can be written; the rest of the zone does not exist.
    pub capacity: u64,
    /// Where the next write must go.
    pub pointer: u64,
    pub kind: ZoneKind,
    pub condition: ZoneCondition,
}

/// How many zones may be open, and open or closed, at a time; 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneLimits {
    pub open: u32,
    pub active: u32,
}

/// What a device without zones says to a command for one.
pub(crate) fn none() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the device has no zones")
}
