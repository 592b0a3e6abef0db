//! Forced shutdown that simulates a power failure, for crash tests.
use super::Volume;
use crate::commit::CheckpointReason;
use crate::error::Result;

/// Scope of the final writes; the values are F2FS's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Shutdown {
    /// Everything.
    FullSync = 0,
    /// Metadata, and file data that has already been written back.
    MetaSync = 1,
    /// Nothing.
    NoSync = 2,
}

impl Shutdown {
    /// The variant with F2FS's number.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        [Self::FullSync, Self::MetaSync, Self::NoSync].into_iter().find(|&s| s as u8 == number)
    }
}

impl Volume {
    /// Stops the volume: later changes fail, and unmounting writes nothing. As after a power cut, the superblock
    /// records no reason.
    pub fn shut_down(&self, how: Shutdown) -> Result<()> {
        let written = match how {
            Shutdown::FullSync => self.sync(),
            Shutdown::MetaSync => self.commit.checkpoint(CheckpointReason::Sync),
            Shutdown::NoSync => Ok(()),
        };
        self.base.health.end();
        written
    }
}
