//! Why a volume lacks the journal that it needs: one rule for mounts and checks.
use crate::error::{Error, Result};
use crate::open::{Opened, Stale};

/// Why a volume lacks the journal that was in use when its last mount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The device ends with the volume.
    #[error("nothing follows the volume")]
    NoSpace,
    /// The space is smaller than a journal.
    #[error("there are only {blocks} blocks for one")]
    TooSmall {
        /// Size of the space.
        blocks: u64,
    },
    /// No valid superblock of a journal.
    #[error("there is none in its place ({why})")]
    Absent {
        /// The defect of the superblock.
        why: &'static str,
    },
    /// The journal there was not in use.
    #[error("the one in its place is not that: {0}")]
    Stale(Stale),
}

impl Missing {
    /// Judges the place where the journal should be; `None` if it is there, or the place cannot be read.
    #[must_use]
    pub fn of(opened: &Result<Opened>) -> Option<Self> {
        match opened {
            Ok(Opened::Stale(why)) if !why.was_in_use() => Some(Self::Stale(*why)),
            Err(Error::TooSmall { blocks, .. }) => Some(Self::TooSmall { blocks: *blocks }),
            Err(Error::Absent { why }) => Some(Self::Absent { why }),
            Ok(_) | Err(_) => None,
        }
    }
}
