//! The changes to replay after a crash: the roll-forward chain and the journal.
use crate::error::{Cause, JournalError, errno, refuse};
use crate::inspect::{self, InspectError};
use segno_check::Report;
use segno_device::BlockDevice;
use segno_engine::options::{Discard, JournalMode};
use segno_engine::{Error, MountOptions, Observer, Volume};
use segno_format::Features;
use segno_format::superblock::Superblock;
use segno_journal::{Area, Journal, Missing, Opened, Stale};
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
    /// Changes in a journal that is not where it was.
    Missing(Missing),
}

impl Left {
    /// Why it cannot be replayed, if its journal is not here.
    #[must_use]
    pub fn without_its_journal(&self) -> Option<String> {
        match self {
            Self::NotNamed => Some(Error::JournalNotNamed.to_string()),
            Self::Missing(why) => Some(Error::JournalMissing(*why).to_string()),
            Self::Nothing | Self::Chain | Self::Journal | Self::Ahead(_) => None,
        }
    }
}

/// The state beyond the checkpoint, according to the journal.
#[derive(Default)]
pub(crate) struct Told {
    /// `None` if no journal belongs to the checkpoint.
    found: Option<Left>,
    /// Why the journal that was in use is not there.
    missing: Option<Missing>,
    /// Why committed changes that only the journal had are lost, if any are.
    pub(crate) lost: Option<Stale>,
}

/// Finds the state beyond the checkpoint, from the chain and from the result for the journal.
pub(crate) fn left(device: &Arc<dyn BlockDevice>, report: &Report, told: &Told) -> Result<Left, Cause> {
    let has_chain = report.complete && report.summary.roll_forward.fsynced > 0;
    if matches!(told.found, None | Some(Left::Nothing)) && has_chain {
        let can = !inspect::superblock(&**device)?.features.contains(Features::RO);
        return Ok(if can { Left::Chain } else { Left::Nothing });
    }
    Ok(told.left(device))
}

impl Told {
    /// The state beyond the checkpoint, without a chain.
    pub(crate) fn left(&self, device: &Arc<dyn BlockDevice>) -> Left {
        if let Some(found) = self.found {
            return found;
        }
        let Ok(sb) = inspect::superblock(&**device) else { return Left::Nothing };
        match (inspect::checkpoint(&**device, &sb), self.missing) {
            (Ok(pack), _) if pack.external_journal => Left::NotNamed,
            (Ok(_), Some(missing)) if sb.guarded => Left::Missing(missing),
            _ => Left::Nothing,
        }
    }
}

/// Reads the journal, if there is one.
pub(crate) fn told(device: &Arc<dyn BlockDevice>, journal: Option<Area>) -> Result<Told, Cause> {
    if let Some(area) = journal {
        return of_area(area, device, &inspect::superblock(&**device)?);
    }
    // The journal is where the volume ends, about which a damaged copy may be wrong.
    let copies = Superblocks::load(&**device).map_err(InspectError::Read)?.parsed;
    let mut valid: Vec<&Superblock> = copies.iter().flatten().collect();
    valid.dedup_by_key(|sb| sb.geo.block_count);
    let mut first = None;
    for sb in valid {
        let told = of_tail(device, sb)?;
        if told.found.is_some() {
            return Ok(told);
        }
        first = first.or(Some(told));
    }
    Ok(first.unwrap_or_default())
}

/// Of a journal after the volume.
fn of_tail(device: &Arc<dyn BlockDevice>, sb: &Superblock) -> Result<Told, Cause> {
    if sb.features.contains(Features::RO) {
        return Ok(Told::default());
    }
    match Area::tail(device.clone(), sb.geo.block_count) {
        Some(area) => of_area(area, device, sb),
        None => Ok(Told { missing: Some(Missing::NoSpace), ..Told::default() }),
    }
}

/// Refuses a journal that does not belong to the volume. Returns the reason if a journal of the volume has no
/// effect.
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

fn of_area(area: Area, device: &Arc<dyn BlockDevice>, sb: &Superblock) -> Result<Told, Cause> {
    // Without a checkpoint there is nothing that a journal could belong to.
    let Ok(pack) = inspect::checkpoint(&**device, sb) else { return Ok(Told::default()) };
    let opened = Journal::open(area, &pack.journaled(sb), &**device);
    let missing = Missing::of(&opened);
    let (found, lost) = match opened {
        Ok(Opened::Usable(replay)) if replay.accepted().is_empty() => (Some(Left::Nothing), None),
        Ok(Opened::Usable(_)) => (Some(Left::Journal), None),
        Ok(Opened::Stale(why)) if why.is_damage() => (Some(Left::Ahead(why)), None),
        Ok(Opened::Stale(why)) => {
            let is_known = matches!(why, Stale::ForeignWrite { .. });
            (is_known.then_some(Left::Nothing), why.lost().map(|_| why))
        }
        Err(_) if missing.is_some() => (None, None),
        Err(e) => return Err(Cause::Journal(JournalError(e))),
    };
    Ok(Told { found, missing, lost })
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
