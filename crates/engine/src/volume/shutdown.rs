//! Stopping on demand, as if the power failed: for tests of what is left then.
use super::Volume;
use crate::checkpoint::Reason;
use crate::error::Result;
use crate::sync::atomic::Ordering;

/// What is still written; the numbers are F2FS's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Shutdown {
    /// Everything.
    FullSync = 0,
    /// Names and attributes, and of file data what has been written back already.
    MetaSync = 1,
    /// Nothing.
    NoSync = 2,
}

impl Shutdown {
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        [Self::FullSync, Self::MetaSync, Self::NoSync].into_iter().find(|&s| s as u8 == number)
    }
}

impl Volume {
    /// Stops the volume for good: changes fail from now on, and unmounting writes nothing. No reason is recorded in the
    /// superblock, as a power cut leaves none.
    pub fn shut_down(&self, how: Shutdown) -> Result<()> {
        let written = match how {
            Shutdown::FullSync => self.sync(),
            Shutdown::MetaSync => self.checkpoint(Reason::Sync),
            Shutdown::NoSync => Ok(()),
        };
        self.stopped.store(true, Ordering::Release);
        written
    }
}
