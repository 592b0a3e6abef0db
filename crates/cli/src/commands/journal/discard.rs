//! `segno journal discard`.
use super::DiscardArgs;
use super::found::Found;
use crate::exit::Outcome;
use crate::image;
use anyhow::{Context, Error, bail};
use segno_device::OpenOptions;
use segno_journal::{Journal, Opened, Stale};
use serde_json::json;
use std::io::{Write, stdout};
use std::process::ExitCode;

pub fn run(args: &DiscardArgs) -> Outcome {
    let of = &args.of;
    let found = match Found::open(&of.image, of.journal.as_deref(), false) {
        Ok(found) => found,
        Err(e) if args.force && of.journal.is_none() => return give_up(args, e),
        Err(e) => return Err(e),
    };
    let lost = match found.state() {
        Ok(None) if !found.guarded => bail!("there is no journal {}", found.describe()),
        Ok(state) if found.guarded && !args.force && !is_guarding(state.as_ref()) => bail!(
            "the volume is marked read-only for a journal that is not {}: --journal FILE names it, --force gives it up",
            found.describe()
        ),
        Ok(Some(Opened::Stale(Stale::AheadOfVolume { records, .. }))) if records > 0 && !args.force => bail!(
            "the volume is damaged: its journal has {records} records after a checkpoint that cannot be read. `segno rescue {}` copies \
             files that are still on the device; --force gives up the journal",
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
    Journal::discard(&found.area).context("cannot erase the journal")?;
    segno_engine::unguard(found.device.clone())?;
    if of.json {
        writeln!(stdout(), "{}", json!({ "discarded": true, "groups_lost": lost }))?;
    } else {
        let what = if lost > 0 { format!(", and {lost} groups of changes with it") } else { String::new() };
        writeln!(stdout(), "the journal {} is erased{what}", found.describe())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the guard mark of the volume may belong to this journal.
fn is_guarding(state: Option<&Opened>) -> bool {
    match state {
        None => false,
        Some(Opened::Stale(why)) => why.was_in_use(),
        Some(Opened::Usable(_)) => true,
    }
}

/// A lost external journal may have left its guard mark on the volume.
fn give_up(args: &DiscardArgs, why: Error) -> Outcome {
    let options = OpenOptions { read_only: false, direct: false };
    let device = image::open(std::slice::from_ref(&args.of.image), options)?;
    if !segno_engine::unguard(device)? {
        return Err(why);
    }
    if args.of.json {
        writeln!(stdout(), "{}", json!({ "discarded": false, "unmarked": true }))?;
    } else {
        writeln!(stdout(), "the volume is no longer marked read-only; what its journal held is given up")?;
    }
    Ok(ExitCode::SUCCESS)
}
