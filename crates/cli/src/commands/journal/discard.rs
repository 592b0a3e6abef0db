//! `segno journal discard`.
use super::DiscardArgs;
use super::found::Found;
use crate::exit::Outcome;
use anyhow::{Context, bail};
use segno_journal::{Journal, Opened};
use serde_json::json;
use std::io::{Write, stdout};
use std::process::ExitCode;

pub fn run(args: &DiscardArgs) -> Outcome {
    let of = &args.of;
    let found = Found::open(&of.image, of.journal.as_deref(), false)?;
    let lost = match found.state() {
        Ok(None) => bail!("there is no journal {}", found.describe()),
        Ok(Some(Opened::Usable(replay))) => replay.accepted().len(),
        Ok(Some(Opened::Stale(_))) => 0,
        Err(e) if !args.force => {
            return Err(e.context("what the journal holds cannot be told; --force erases it all the same"));
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
    if of.json {
        writeln!(stdout(), "{}", json!({ "discarded": true, "groups_lost": lost }))?;
    } else {
        let what = if lost > 0 { format!(", and {lost} groups of changes with it") } else { String::new() };
        writeln!(stdout(), "the journal {} is erased{what}", found.describe())?;
    }
    Ok(ExitCode::SUCCESS)
}
