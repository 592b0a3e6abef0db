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
pub enum PendingReplay {
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

impl PendingReplay {
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
pub(crate) struct JournalState {
    /// `None` if no journal belongs to the checkpoint.
    found: Option<PendingReplay>,
    /// Why the journal that was in use is not there.
    missing: Option<Missing>,
    /// Why committed changes that only the journal had are lost, if any are.
    pub(crate) lost: Option<Stale>,
}

/// Finds the state beyond the checkpoint, from the chain and from the result for the journal.
pub(crate) fn pending(
    device: &Arc<dyn BlockDevice>,
    report: &Report,
    journal_state: &JournalState,
) -> Result<PendingReplay, Cause> {
    let has_chain = report.complete && report.summary.roll_forward.fsynced > 0;
    if matches!(journal_state.found, None | Some(PendingReplay::Nothing)) && has_chain {
        let can = !inspect::superblock(&**device)?.features.contains(Features::RO);
        return Ok(if can { PendingReplay::Chain } else { PendingReplay::Nothing });
    }
    Ok(journal_state.pending(device))
}

impl JournalState {
    /// The state beyond the checkpoint, without a chain.
    pub(crate) fn pending(&self, device: &Arc<dyn BlockDevice>) -> PendingReplay {
        if let Some(found) = self.found {
            return found;
        }
        let Ok(sb) = inspect::superblock(&**device) else { return PendingReplay::Nothing };
        match (inspect::checkpoint(&**device, &sb), self.missing) {
            (Ok(pack), _) if pack.external_journal => PendingReplay::NotNamed,
            (Ok(_), Some(missing)) if sb.guarded => PendingReplay::Missing(missing),
            _ => PendingReplay::Nothing,
        }
    }
}

/// Reads the journal, if there is one.
pub(crate) fn journal_state(
    device: &Arc<dyn BlockDevice>,
    journal: Option<Area>,
) -> Result<JournalState, Cause> {
    if let Some(area) = journal {
        return of_area(area, device, &inspect::superblock(&**device)?);
    }
    // The journal is where the volume ends, about which a damaged copy may be wrong.
    let copies = Superblocks::load(&**device).map_err(InspectError::Read)?.parsed;
    let mut valid: Vec<&Superblock> = copies.iter().flatten().collect();
    valid.dedup_by_key(|sb| sb.geo.block_count);
    let mut first = None;
    for sb in valid {
        let journal_state = of_tail(device, sb)?;
        if journal_state.found.is_some() {
            return Ok(journal_state);
        }
        first = first.or(Some(journal_state));
    }
    Ok(first.unwrap_or_default())
}

/// Of a journal after the volume.
fn of_tail(device: &Arc<dyn BlockDevice>, sb: &Superblock) -> Result<JournalState, Cause> {
    if sb.features.contains(Features::RO) {
        return Ok(JournalState::default());
    }
    match Area::tail(device.clone(), sb.geo.block_count) {
        Some(area) => of_area(area, device, sb),
        None => Ok(JournalState { missing: Some(Missing::NoSpace), ..JournalState::default() }),
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

fn of_area(area: Area, device: &Arc<dyn BlockDevice>, sb: &Superblock) -> Result<JournalState, Cause> {
    // Without a checkpoint there is nothing that a journal could belong to.
    let Ok(pack) = inspect::checkpoint(&**device, sb) else { return Ok(JournalState::default()) };
    let opened = Journal::open(area, &pack.journaled(sb), &**device);
    let missing = Missing::of(&opened);
    let (found, lost) = match opened {
        Ok(Opened::Usable(replay)) if replay.accepted().is_empty() => (Some(PendingReplay::Nothing), None),
        Ok(Opened::Usable(_)) => (Some(PendingReplay::Journal), None),
        Ok(Opened::Stale(why)) if why.is_damage() => (Some(PendingReplay::Ahead(why)), None),
        Ok(Opened::Stale(why)) => {
            let is_known = matches!(why, Stale::ForeignWrite { .. });
            (is_known.then_some(PendingReplay::Nothing), why.lost().map(|_| why))
        }
        Err(_) if missing.is_some() => (None, None),
        Err(e) => return Err(Cause::Journal(JournalError(e))),
    };
    Ok(JournalState { found, missing, lost })
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
