//! What a crash left to replay: the roll-forward chain and the journal.
use crate::error::{Cause, JournalError, errno, refuse};
use crate::inspect::{self, InspectError};
use segno_check::Report;
use segno_device::BlockDevice;
use segno_engine::options::{Discard, JournalMode};
use segno_engine::{Error, MountOptions, Observer, Volume};
use segno_format::Features;
use segno_format::superblock::Superblock;
use segno_journal::{Area, Journal, Opened, Stale};
use segno_layout::Superblocks;
use std::fmt;
use std::sync::Arc;

/// State beyond the checkpoint, as a mount finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The checkpoint has everything.
    Nothing,
    /// A chain to replay.
    Chain,
    /// A journal to replay.
    Journal,
    /// A journal that is ahead of the volume, which is evidence of damage.
    Ahead(Stale),
    /// Changes in an external journal, which was not named.
    NotNamed,
}

/// Looks for state beyond the checkpoint.
pub(crate) fn left(
    device: &Arc<dyn BlockDevice>,
    report: &Report,
    journal: Option<Area>,
) -> Result<Left, Cause> {
    let has_chain = report.complete && report.summary.roll_forward.fsynced > 0;
    let found = of_journal(device, journal)?;
    if matches!(found, None | Some(Left::Nothing)) && has_chain {
        let can = !inspect::superblock(&**device)?.features.contains(Features::RO);
        return Ok(if can { Left::Chain } else { Left::Nothing });
    }
    Ok(found.unwrap_or_else(|| without_journal(device)))
}

/// What the journal tells of it.
pub(crate) fn by_journal(device: &Arc<dyn BlockDevice>, journal: Option<Area>) -> Result<Left, Cause> {
    Ok(of_journal(device, journal)?.unwrap_or_else(|| without_journal(device)))
}

/// Of a volume without a journal that belongs to its checkpoint.
fn without_journal(device: &Arc<dyn BlockDevice>) -> Left {
    let pack = inspect::superblock(&**device).and_then(|sb| inspect::checkpoint(&**device, &sb));
    if pack.is_ok_and(|pack| pack.external_journal) { Left::NotNamed } else { Left::Nothing }
}

/// Of the journal, if there is one that belongs to the checkpoint.
fn of_journal(device: &Arc<dyn BlockDevice>, journal: Option<Area>) -> Result<Option<Left>, Cause> {
    if let Some(area) = journal {
        return of_area(area, device, &inspect::superblock(&**device)?);
    }
    // The journal is where the volume ends, about which a damaged copy may be wrong.
    for sb in Superblocks::load(&**device).map_err(InspectError::Read)?.parsed.iter().flatten() {
        let found = of_tail(device, sb)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Of a journal after the volume.
fn of_tail(device: &Arc<dyn BlockDevice>, sb: &Superblock) -> Result<Option<Left>, Cause> {
    if sb.features.contains(Features::RO) {
        return Ok(None);
    }
    let Some(area) = Area::tail(device.clone(), sb.geo.block_count) else { return Ok(None) };
    of_area(area, device, sb)
}

/// Refuses what is no journal of the volume, and says why one of it has no effect.
pub(crate) fn verify(area: Area, device: &Arc<dyn BlockDevice>) -> Result<Option<Stale>, Cause> {
    let refused =
        |why: &dyn fmt::Display| refuse(errno::INVAL, format!("the external journal cannot be used: {why}"));
    let sb = inspect::superblock(&**device)?;
    let checkpoint = inspect::checkpoint(&**device, &sb)?.journaled(&sb);
    match Journal::open(area, &checkpoint, &**device) {
        Ok(Opened::Stale(why @ Stale::OtherVolume)) => Err(refused(&why)),
        Ok(Opened::Stale(why)) if !why.is_damage() => Ok(Some(why)),
        Ok(_) => Ok(None),
        Err(e @ segno_journal::Error::Io { .. }) => Err(Cause::Journal(JournalError(e))),
        Err(e) => Err(refused(&e)),
    }
}

fn of_area(area: Area, device: &Arc<dyn BlockDevice>, sb: &Superblock) -> Result<Option<Left>, Cause> {
    // Without a checkpoint there is nothing that a journal could belong to.
    let Ok(pack) = inspect::checkpoint(&**device, sb) else { return Ok(None) };
    match Journal::open(area, &pack.journaled(sb), &**device) {
        Ok(Opened::Usable(replay)) if replay.accepted().is_empty() => Ok(Some(Left::Nothing)),
        Ok(Opened::Usable(_)) => Ok(Some(Left::Journal)),
        Ok(Opened::Stale(why)) if why.is_damage() => Ok(Some(Left::Ahead(why))),
        Ok(Opened::Stale(Stale::ForeignWrite { .. })) => Ok(Some(Left::Nothing)),
        Ok(_) | Err(segno_journal::Error::Absent { .. } | segno_journal::Error::TooSmall { .. }) => Ok(None),
        Err(e) => Err(Cause::Journal(JournalError(e))),
    }
}

/// Why committed changes that only the journal had are lost, if any are.
pub(crate) fn lost(device: &Arc<dyn BlockDevice>, journal: Option<Area>) -> Option<Stale> {
    let sb = inspect::superblock(&**device).ok()?;
    let area = journal.or_else(|| Area::tail(device.clone(), sb.geo.block_count))?;
    let checkpoint = inspect::checkpoint(&**device, &sb).ok()?.journaled(&sb);
    match Journal::open(area, &checkpoint, &**device) {
        Ok(Opened::Stale(why)) if why.lost().is_some() => Some(why),
        _ => None,
    }
}

/// Replays by mounting and unmounting; the device may be an overlay.
pub(crate) fn replay(
    device: Arc<dyn BlockDevice>,
    journal: Option<Area>,
    observer: Observer,
) -> Result<(), Error> {
    let options = MountOptions {
        journal: journal.map_or(JournalMode::Auto, JournalMode::External),
        background: false,
        discard: Discard::Never,
        observer,
        ..MountOptions::default()
    };
    Volume::mount(device, options)?.unmount()
}
