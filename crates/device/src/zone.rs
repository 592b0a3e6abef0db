//! Zones: ranges of a device that are written from start to end and emptied as a whole.
use std::io;

/// Where writes to a zone are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneKind {
    /// Anywhere, as on other devices.
    Conventional,
    /// Only at the write pointer.
    Sequential,
}

/// Condition of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneCondition {
    /// A conventional zone has none.
    NoPointer,
    /// Nothing was written since the last reset.
    Empty,
    /// Opened by a write.
    ImplicitOpen,
    /// Opened by a command.
    ExplicitOpen,
    /// Partly written and not open.
    Closed,
    /// Written to its end, or finished.
    Full,
    /// It can be read only.
    ReadOnly,
    /// It can be neither read nor written.
    Offline,
}

/// One zone. Addresses and lengths in 4 KiB blocks, from the start of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// First block.
    pub start: u64,
    /// Distance to the next zone.
    pub blocks: u64,
    /// Blocks that can be written; the rest of the zone does not exist.
    pub capacity: u64,
    /// Where the next write must go.
    pub pointer: u64,
    /// Where writes are allowed.
    pub kind: ZoneKind,
    /// Condition, as the device reports it.
    pub condition: ZoneCondition,
}

/// How many zones may be open, and open or closed, at a time; 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneLimits {
    /// Open zones.
    pub open: u32,
    /// Open or closed zones.
    pub active: u32,
}

/// The error of zone commands on a device without zones.
pub(crate) fn none() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the device has no zones")
}
