//! Read-only check of an F2FS volume: a second opinion that shares no code with the engine.
//!
//! [`check`] reads the volume as of its newest checkpoint and reports everything in it that contradicts the format or
//! itself. What fsync wrote after that checkpoint is counted, not judged. Any bytes are safe input: a structure that
//! cannot be trusted is reported and left out, and every table is sized by the checked superblock.
//!
//! With [`CheckOptions::data`] the content of compressed clusters is read and verified. Not judged: other contents of files
//! (verity trees) and write pointers of zoned devices.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod decoded;
mod error;
mod evidence;
mod judge;
mod progress;
mod report;

pub use decoded::{Decoded, decode};
pub use error::CheckError;
pub use judge::{bad_xattr, check_quick, enough_reserved, is_debatable_name, is_sound_quota, payers};
pub use progress::{Pass, Progress};
pub use report::{CheckOptions, FileCluster, Kind, Problem, Report, RollForward, Severity, Summary};

use segno_device::BlockDevice;

/// Checks the volume on a device. `progress` hears about each pass as it starts and while it runs; where something is wrong, they
/// start a second time.
pub fn check(
    device: &dyn BlockDevice,
    opts: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    match judge::prove(device, opts, progress) {
        Ok(Some(report)) => Ok(report),
        // What cannot be read is met again, and reported, if it is needed.
        Ok(None) | Err(_) => judge::explain(device, opts, progress),
    }
}
