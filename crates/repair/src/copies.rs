//! Two superblocks that are valid and describe different volumes: the one that the volume fits.
use crate::error::{RepairError, Result};
use crate::writer::Plan;
use segno_check::{CheckError, CheckOptions, check};
use segno_device::{BlockDevice, Overlay};
use segno_format::Features;
use segno_format::superblock::{RawDevice, SUPERBLOCK_COPIES, Superblock};
use segno_journal::{About, Area};
use segno_layout::Superblocks;
use std::sync::Arc;

/// Defects of a superblock, worst first: impossible features, number of errors of the volume with it, an end
/// beyond the device, no journal of the volume after that end, an incomplete last zone, a damaged list of
/// devices.
type Rank = (bool, u64, bool, bool, bool, bool);

/// The device with the better superblock in both places, in memory; the device itself if the copies do not
/// contradict. The flag is set if no criterion decides between the copies and the first was taken.
pub(crate) fn settled(device: &Arc<dyn BlockDevice>) -> Result<(Arc<dyn BlockDevice>, bool)> {
    let copies = Superblocks::load(&**device)?;
    let Some(both) = copies.contradicting() else { return Ok((device.clone(), false)) };
    let mut undecided = false;
    let mut best: Option<(Rank, Arc<dyn BlockDevice>)> = None;
    for (block, sb) in copies.blocks.iter().flatten().zip(both) {
        let overlay = Overlay::new(device.clone());
        overlay.write(0, &[block, block]).map_err(|e| RepairError::refused(e.to_string()))?;
        let options = CheckOptions { max_problems: 0, ..CheckOptions::default() };
        let errors = match check(&overlay, &options, &mut |_| {}) {
            Ok(found) if found.complete => found.errors,
            Ok(_) | Err(CheckError::Unsupported(_)) => u64::MAX,
            Err(e) => return Err(e.into()),
        };
        let rank = (
            !refused(sb.features).is_empty(),
            errors,
            sb.geo.block_count > device.block_count(),
            !has_journal(sb, device),
            !is_whole_zones(sb),
            !is_list_of_devices(sb),
        );
        undecided = best.as_ref().is_some_and(|(least, _)| rank == *least);
        if best.as_ref().is_none_or(|(least, _)| rank < *least) {
            best = Some((rank, Arc::new(overlay)));
        }
    }
    Ok((best.map_or_else(|| device.clone(), |(_, settled)| settled), undecided))
}

/// Features of a volume with which it is not repaired.
pub(crate) fn refused(features: Features) -> Features {
    features.unsupported() | (features & Features::RO)
}

/// Whether a journal with the volume's uuid is where the volume ends.
fn has_journal(sb: &Superblock, device: &Arc<dyn BlockDevice>) -> bool {
    let about = Area::tail(device.clone(), sb.geo.block_count).map(|area| About::read(&area));
    about.is_some_and(|about| about.is_ok_and(|about| about.volume == sb.raw.uuid))
}

/// Formatters leave out what does not fill a zone.
fn is_whole_zones(sb: &Superblock) -> bool {
    let zone = u64::from(sb.geo.segs_per_sec) * u64::from(sb.geo.secs_per_zone);
    u64::from(sb.raw.segment_count.get()).is_multiple_of(zone.max(1))
}

/// Whether the names are text and all entries after the last device are empty.
fn is_list_of_devices(sb: &Superblock) -> bool {
    let is_text =
        |path: &[u8]| std::str::from_utf8(path).is_ok_and(|path| !path.chars().any(char::is_control));
    let is_empty = |d: &RawDevice| d.total_segments.get() == 0 && d.path.iter().all(|&b| b == 0);
    sb.devices.iter().all(|d| is_text(&d.path)) && sb.raw.devs.iter().skip(sb.devices.len()).all(is_empty)
}

/// Makes the superblock that the plan follows the first write: before it is in both places, the volume in
/// force is another one.
pub(crate) fn write_first(
    device: &Arc<dyn BlockDevice>,
    settled: &Arc<dyn BlockDevice>,
    plan: &mut Plan,
) -> Result<()> {
    for copy in SUPERBLOCK_COPIES {
        let new = settled.block(copy)?;
        if device.block(copy)?.0 != new.0 {
            plan.push_first(vec![(copy.0.into(), new)]);
        }
    }
    Ok(())
}
