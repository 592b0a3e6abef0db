//! `segno journal remove`.
use super::found::Found;
use super::{Target, room};
use crate::document::Schema;
use crate::out;
use anyhow::{Context, Result};
use segno_format::size;
use segno_journal::Journal;
use serde_json::json;

pub fn run(args: &Target) -> Result<()> {
    let found = Found::open(&args.of, false)?;
    let about = found.unneeded(&args.of.image)?;
    let place = found.describe();
    Journal::discard(&found.area).context("cannot erase the journal")?;
    let shortened = room::shorten(found, &args.of, 0)?;
    let rest = if shortened { "; the image ends with its volume" } else { "" };
    let words = format!("removed the journal of {} {place}{rest}", size::human(about.area_bytes()));
    let document = json!({ "removed": true, "shortened": shortened });
    Ok(out::report(args.json, Schema("segno.journal-remove", 1), &document, words)?)
}
