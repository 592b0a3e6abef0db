//! What a crash left to replay: the roll-forward chain and the journal behind the volume.
use crate::{image, inspect};
use anyhow::{Context, Result};
use segno_check::Report;
use segno_device::BlockDevice;
use segno_engine::{Error, MountOptions, Volume};
use segno_format::Features;
use segno_journal::{Area, Journal, Opened};
use std::sync::Arc;

/// Whether a mount would replay something. On zoned volumes only a mount of the device itself can.
pub fn is_pending(device: &Arc<dyn BlockDevice>, report: &Report) -> Result<bool> {
    let Ok(sb) = inspect::superblock(&**device) else { return Ok(false) };
    if !report.complete || sb.features.intersects(Features::BLKZONED | Features::RO) {
        return Ok(false);
    }
    if report.summary.roll_forward.fsynced > 0 {
        return Ok(true);
    }
    let Some(area) = Area::tail(device.clone(), sb.geo.block_count) else { return Ok(false) };
    let checkpoint = inspect::journaled_checkpoint(&**device, &sb)?;
    match Journal::open(area, &checkpoint, &**device) {
        Ok(Opened::Usable(replay)) => Ok(!replay.accepted().is_empty()),
        Ok(Opened::Stale(_))
        | Err(segno_journal::Error::Absent { .. } | segno_journal::Error::TooSmall { .. }) => Ok(false),
        Err(e) => Err(e).context("cannot read the journal"),
    }
}

/// Replays by mounting and unmounting; the device may be an overlay.
pub fn replay(device: Arc<dyn BlockDevice>) -> Result<(), Error> {
    let options = MountOptions {
        background: false,
        discard: false,
        observer: image::observer(),
        ..MountOptions::default()
    };
    Volume::mount(device, options)?.unmount()
}
