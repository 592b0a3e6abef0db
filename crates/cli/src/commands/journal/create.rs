//! `segno journal create`.
use super::found::{Found, blocks_of, make_in};
use super::{CreateArgs, room};
use crate::document::Schema;
use crate::out;
use anyhow::{Context, Result, bail, ensure};
use segno_format::BLOCK_SIZE;
use segno_format::size;
use segno_format::superblock::uuid_text;
use segno_journal::{Content, Journal};
use serde_json::json;

pub fn run(args: &CreateArgs) -> Result<()> {
    let of = &args.target.of;
    let found = Found::open_any(of)?;
    let blocks =
        args.size.map_or_else(|| Ok(room::default_blocks(&found)), blocks_of)?.min(Journal::MOST_BLOCKS);
    ensure!(
        blocks >= Journal::LEAST_BLOCKS,
        "the space {} is too small for a journal: {} of at least {}",
        found.describe(),
        size::human(blocks * BLOCK_SIZE as u64),
        size::human(Journal::LEAST_BLOCKS * BLOCK_SIZE as u64)
    );
    let unused = |found: &Found| refuse_used(&found.first(blocks), args.force);
    let found = room::make(found, of, blocks, unused)?.first(blocks);
    let bytes = blocks * BLOCK_SIZE as u64;
    make_in(found.area.clone().clear().context("cannot write the journal's space")?, &found.checkpoint)?;
    let words = format!("an empty journal of {} is {}", size::human(bytes), found.describe());
    Ok(out::report(
        args.target.json,
        Schema("segno.journal-create", 1),
        &json!({ "created": true, "bytes": bytes }),
        words,
    )?)
}

/// A journal in use is never overwritten, anything else only by force.
fn refuse_used(found: &Found, force: bool) -> Result<()> {
    ensure!(
        !found.guarded,
        "the volume is marked read-only for a journal that holds more than it has: `segno journal replay` keeps that"
    );
    ensure!(!found.external, segno_engine::Error::JournalNotNamed);
    let place = found.describe();
    match found.content()? {
        Content::Nothing => Ok(()),
        Content::Own(_) => bail!("there is a journal of this volume {place} already"),
        Content::Other(about) if !about.clean => bail!(
            "the journal {place} is of another volume ({}), which needs it: mount that volume with it first, or name another file",
            uuid_text(&about.volume)
        ),
        Content::Other(_) | Content::Data { .. } if force => Ok(()),
        Content::Other(about) => bail!(
            "the journal {place} is of another volume ({}), and empty: --force gives it to this one",
            uuid_text(&about.volume)
        ),
        Content::Data { at } => bail!(
            "there is other data {place}, first at byte {}: --force overwrites it",
            at * BLOCK_SIZE as u64
        ),
    }
}
