//! What a crash left to replay: the roll-forward chain and the journal behind the volume.
use crate::{image, inspect};
use anyhow::{Context, Result};
use segno_check::Report;
use segno_device::BlockDevice;
use segno_engine::{Error, MountOptions, Volume};
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES, Superblock};
use segno_format::{Block, Features};
use segno_journal::{Area, Journal, Opened};
use std::sync::Arc;

/// Whether a mount would replay something. On zoned volumes only a mount of the device itself can.
pub fn is_pending(device: &Arc<dyn BlockDevice>, report: &Report) -> Result<bool> {
    if report.complete && report.summary.roll_forward.fsynced > 0 {
        let features = inspect::superblock(&**device)?.features;
        return Ok(!features.intersects(Features::BLKZONED | Features::RO));
    }
    // The journal is where the volume ends, about which a damaged copy may be wrong.
    for copy in SUPERBLOCK_COPIES {
        let mut one = [Block::zeroed()];
        device.read(copy.0.into(), &mut one).with_context(|| format!("cannot read block {copy}"))?;
        let [block] = &one;
        if let Ok(sb) = RawSuperblock::from_block(&block.0).parse(copy.0.into())
            && has_journal(device, &sb)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a journal behind the volume has something to replay.
fn has_journal(device: &Arc<dyn BlockDevice>, sb: &Superblock) -> Result<bool> {
    if sb.features.intersects(Features::BLKZONED | Features::RO) {
        return Ok(false);
    }
    let Some(area) = Area::tail(device.clone(), sb.geo.block_count) else { return Ok(false) };
    // Without a checkpoint there is nothing that a journal could belong to.
    let Ok(checkpoint) = inspect::journaled_checkpoint(&**device, sb) else { return Ok(false) };
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
