//! Why a check could not be done at all; damage is not an error but a [`crate::Problem`].
use segno_format::Unsupported;

/// The check itself failed (exit code 8 of fsck(8)).
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The device did not deliver a block.
    #[error("cannot read {count} block(s) at block {addr}: {source}")]
    Io {
        /// First block of the failed read.
        addr: u64,
        /// Number of blocks requested.
        count: usize,
        /// The device's reason.
        source: std::io::Error,
    },
    /// The volume is of a kind that this version does not support, so nothing can be said of it.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// There is no F2FS volume on the device.
    #[error("not an F2FS volume: neither block 0 nor block 1 carries the magic number")]
    NotF2fs,
}
