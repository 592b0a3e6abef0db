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

mod ahead;
mod bitmap;
mod checkpoint;
mod curseg;
mod error;
mod ledger;
mod nat;
mod nat_bits;
mod orphan;
mod pack;
mod progress;
mod proof;
mod quick;
mod quota;
mod reader;
mod report;
mod roll_forward;
mod runs;
mod sit;
mod ssa;
mod summary;
mod superblock;
mod totals;
mod volume;
mod walk;

pub use error::CheckError;
pub use progress::{Pass, Progress};
pub use quick::check_quick;
pub use report::{CheckOptions, FileCluster, Kind, Problem, Report, RollForward, Severity, Summary};

/// The tables that a check loads first, for programs that repair volumes.
pub mod tables {
    pub use crate::checkpoint::enough_reserved;
    pub use crate::nat::Nat;
    pub use crate::pack::Pack;
    pub use crate::reader::Reader;
    pub use crate::sit::Sit;
    pub use crate::summary::PackSummaries;
    pub use crate::volume::Volume;
    pub use crate::walk::{bad_xattr, is_debatable_name};
}

use report::Sink;
use segno_device::BlockDevice;
use volume::Volume;

/// Checks the volume on a device. `progress` hears about each pass as it starts and while it runs; where something is wrong, they
/// start a second time.
pub fn check(
    device: &dyn BlockDevice,
    opts: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    match proof::run(device, opts, progress) {
        Ok(Some(report)) => Ok(report),
        // What cannot be read is met again, and reported, if it is needed.
        Ok(None) | Err(_) => explain(device, opts, progress),
    }
}

/// Looks at one thing after the other to say what is wrong.
fn explain(
    device: &dyn BlockDevice,
    opts: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    let mut sink = Sink::new(opts);
    let mut summary = Summary::default();
    let complete = match Volume::load(device, &mut sink, progress)? {
        Some(volume) => {
            summary = check_loaded(&volume, opts, &mut sink, progress)?;
            true
        }
        None => false,
    };
    Ok(sink.into_report(summary, complete))
}

fn check_loaded(
    volume: &Volume<'_>,
    opts: &CheckOptions,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Summary, CheckError> {
    curseg::check(volume, sink);
    let nodes = nat::check_places(volume, sink);
    let roll_forward = roll_forward::find(volume, sink)?;
    let found = walk::explain(volume, &nodes, opts.data, sink, progress)?;
    progress(Progress::start(Pass::Totals));
    totals::check(volume, &found, sink);
    quota::check(volume, &found.usage, sink)?;
    Ok(totals::summary(volume, &found, roll_forward))
}
