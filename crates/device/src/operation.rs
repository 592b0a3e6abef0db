//! Operations of a device, for errors.
use std::fmt;

/// An operation of a device that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each has its words")]
pub enum Operation {
    Read,
    Write,
    Flush,
    Drain,
    Prepare,
    Discard,
    ReadZones,
    ResetZone,
    FinishZone,
    ReadCanary,
    ReadData,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Drain => "drain",
            Self::Prepare => "prepare",
            Self::Discard => "discard",
            Self::ReadZones => "read the zones of",
            Self::ResetZone => "reset the zone",
            Self::FinishZone => "finish the zone",
            Self::ReadCanary => "read of a canary",
            Self::ReadData => "read of data",
        })
    }
}
