//! Read-only check of an F2FS volume: a second opinion that shares no code with the engine.
//!
//! [`check`] reads the volume as of its newest checkpoint and reports everything in it that contradicts the
//! format or itself. Nodes that fsync wrote after that checkpoint are counted, not judged. Any bytes are safe
//! input: a structure that cannot be trusted is reported and left out, and every table is sized by the
//! checked superblock.
//!
//! With [`CheckOptions::data`] the content of compressed clusters is read and verified. Not judged: other
//! contents of files (verity trees) and write pointers of zoned devices.
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

/// Checks the volume on a device. `progress` is called when a pass starts and while it runs. If something is
/// wrong, the passes start a second time.
pub fn check(
    device: &dyn BlockDevice,
    opts: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    match judge::prove(device, opts, progress) {
        Ok(Some(report)) => Ok(report),
        // The second run reads the same blocks again and reports an error if it needs them.
        Ok(None) | Err(_) => judge::explain(device, opts, progress),
    }
}
