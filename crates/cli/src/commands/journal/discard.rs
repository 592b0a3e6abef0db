//! `segno journal discard`.
use super::found::Found;
use super::{DiscardArgs, Target};
use crate::document::Schema;
use crate::{image, out};
use anyhow::{Context, Error, Result, bail, ensure};
use segno_device::OpenOptions;
use segno_format::superblock::uuid_text;
use segno_journal::{Content, Journal, Opened, Stale};
use serde_json::json;

pub fn run(args: &DiscardArgs) -> Result<()> {
    let Target { of, json } = &args.target;
    let found = match Found::open(of, false) {
        Ok(found) => found,
        Err(e) if args.force && of.storage.journal.journal.is_none() => return give_up(args, e),
        Err(e) => return Err(e),
    };
    let is_own = is_own(&found)?;
    let lost = match found.state() {
        Ok(state) if found.external && !args.force && !has_changes(state.as_ref()) => bail!(
            "the last mount had an external journal that is not {}: --journal FILE names it, --force gives it up",
            found.describe()
        ),
        Ok(None) if !found.guarded && !found.external => bail!("there is no journal {}", found.describe()),
        Ok(state) if found.guarded && !args.force && !is_guarding(state.as_ref()) => bail!(
            "the volume is marked read-only for a journal that is not {}: --journal FILE names it, --force gives it up",
            found.describe()
        ),
        Ok(Some(Opened::Stale(Stale::AheadOfVolume { records, .. }))) if records > 0 && !args.force => bail!(
            "the volume is damaged: its journal has {records} records after a checkpoint that cannot be read. `segno rescue {}` copies \
             files that are still on the device; --force gives up the journal",
            of.image.display()
        ),
        Ok(Some(Opened::Stale(why @ Stale::DamagedGroup { .. }))) if !args.force => bail!(
            "{why}. `segno journal replay --force {}` applies these; --force gives up all",
            of.image.display()
        ),
        Ok(None | Some(Opened::Stale(_))) => 0,
        Ok(Some(Opened::Usable(replay))) => replay.accepted().len(),
        Err(e) if !args.force => {
            return Err(e.context("the contents of the journal are unknown; --force erases it anyway"));
        }
        Err(_) => 0,
    };
    if lost > 0 && !args.force {
        bail!(
            "the journal holds {lost} groups of committed changes that the volume has not: `segno journal replay {}` \
             keeps them, --force loses them",
            of.image.display()
        );
    }
    if is_own {
        Journal::discard(&found.area).context("cannot erase the journal")?;
    }
    let unmarked = segno_engine::give_up_journal(found.device.clone())?;
    let what = if lost > 0 { format!(", and {lost} groups of changes with it") } else { String::new() };
    let words =
        if is_own { format!("the journal {} is erased{what}", found.describe()) } else { UNMARKED.into() };
    report(*json, is_own, lost, unmarked, words)
}

const UNMARKED: &str =
    "the volume is no longer marked for a journal; the changes that only its journal has are given up";

fn report(json: bool, discarded: bool, lost: usize, unmarked: bool, words: String) -> Result<()> {
    let document = json!({ "discarded": discarded, "groups_lost": lost, "unmarked": unmarked });
    Ok(out::report(json, Schema("segno.journal-discard", 1), &document, words)?)
}

/// Whether there is a journal of this volume to erase. A named file with other data is refused. A named
/// journal is also refused while the journal after the end of the volume has changes.
fn is_own(found: &Found) -> Result<bool> {
    let place = found.describe();
    let behind = if found.file.is_some() && found.guarded { found.changes_behind()? } else { 0 };
    ensure!(behind == 0, segno_engine::Error::ChangesBehind);
    match found.content()? {
        Content::Own(_) => {}
        Content::Other(about) => bail!(
            "the journal {place} is of another volume ({}): it is erased with that volume only",
            uuid_text(&about.volume)
        ),
        Content::Data { .. } if found.file.is_some() => bail!("there is no journal {place}, but other data"),
        Content::Nothing | Content::Data { .. } => return Ok(false),
    }
    Ok(true)
}

/// Whether the guard mark of the volume may belong to this journal.
fn is_guarding(state: Option<&Opened>) -> bool {
    match state {
        None => false,
        Some(Opened::Stale(why)) => why.was_in_use(),
        Some(Opened::Usable(_)) => true,
    }
}

/// Whether the checkpoint of the volume belongs to this journal.
fn has_changes(state: Option<&Opened>) -> bool {
    match state {
        None => false,
        Some(Opened::Stale(why)) => why.is_damage() || matches!(why, Stale::ForeignWrite { .. }),
        Some(Opened::Usable(_)) => true,
    }
}

/// A lost external journal may have left its marks on the volume.
fn give_up(args: &DiscardArgs, why: Error) -> Result<()> {
    let options = OpenOptions { read_only: false, direct: false };
    let device = image::open(&args.target.of.devices()?, options)?;
    if !segno_engine::give_up_journal(device)? {
        return Err(why);
    }
    report(args.target.json, false, 0, true, UNMARKED.into())
}
