//! Reasons for a refusal.
use segno_check::CheckError;
use segno_device::ReadError;

/// A repair that was not begun: nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The device did not deliver a block.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The damage, or the volume, is of a kind that is not repaired.
    #[error("{0}")]
    Refused(String),
    /// A bug of the planner: this must hold whatever is on the device.
    #[error("the planner is wrong, nothing was written: it does not hold that {0}")]
    Invariant(&'static str),
}

impl RepairError {
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }
}

impl From<ReadError> for RepairError {
    fn from(ReadError { at, count, source }: ReadError) -> Self {
        Self::Check(CheckError::Io { addr: at.0.into(), count, source })
    }
}

pub(crate) type Result<T> = std::result::Result<T, RepairError>;
