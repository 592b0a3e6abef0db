//! `segno journal info`.
use super::Target;
use super::found::Found;
use crate::document::Schema;
use crate::out::stdout;
use anyhow::Result;
use segno_format::BLOCK_SIZE;
use segno_format::size;
use segno_format::superblock::uuid_text;
use segno_journal::{About, Content, Opened, Replay, Stale};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;

pub fn run(args: &Target) -> Result<()> {
    let found = Found::open(&args.of, true)?;
    let (about, state) = (found.about()?, found.state()?);
    let waiting = match &state {
        Some(Opened::Usable(replay)) => Some(Waiting::of(replay)?),
        _ => None,
    };
    let mut out = stdout();
    if args.json {
        let mut report = report(&found, about, state.as_ref(), waiting.as_ref());
        if about.is_none() {
            report["occupied_at"] = json!(occupied(&found)?);
        }
        Schema("segno.journal-info", 1).print(&mut out, &report)?;
    } else {
        print(&mut out, &found, about, state.as_ref(), waiting.as_ref())?;
    }
    Ok(())
}

/// Groups, epochs, inodes, records and bytes that a replay would process.
#[derive(Default, Serialize)]
pub struct Waiting {
    pub groups: u64,
    pub epochs: u64,
    pub inodes: u64,
    pub records: u64,
    pub bytes: u64,
}

impl Waiting {
    pub fn of(replay: &Replay) -> Result<Self> {
        let (mut epochs, mut inodes, mut records) = (BTreeSet::new(), BTreeSet::new(), 0);
        for group in replay.groups() {
            for section in group?.sections {
                epochs.insert(section.epoch);
                inodes.insert(section.ino);
                records += section.records.len() as u64;
            }
        }
        Ok(Self {
            groups: replay.accepted().len() as u64,
            epochs: epochs.len() as u64,
            inodes: inodes.len() as u64,
            records,
            bytes: replay.accepted().iter().map(|a| a.bytes).sum(),
        })
    }
}

fn report(found: &Found, about: Option<About>, state: Option<&Opened>, waiting: Option<&Waiting>) -> Value {
    let block = BLOCK_SIZE as u64;
    let (state_name, why, replay) = match state {
        None => ("none", None, None),
        Some(Opened::Stale(why)) => {
            let state = match why {
                Stale::DamagedGroup { .. } => "damaged",
                why if why.is_damage() => "ahead",
                _ => "stale",
            };
            (state, Some(why.to_string()), None)
        }
        Some(Opened::Usable(replay)) => ("usable", None, Some(replay)),
    };
    json!({
        "place": if found.file.is_some() { "file" } else { "gap" },
        "path": found.file.as_ref().map(|path| path.display().to_string()),
        "start": found.area.start() * block,
        "bytes": found.area.blocks() * block,
        "state": state_name,
        "stale_because": why,
        "volume_checkpoint": found.checkpoint.version,
        "guarded": found.guarded,
        "external": found.external,
        "journal": about.map(|a| json!({
            "volume": uuid_text(&a.volume),
            "ring_bytes": a.bytes,
            "clean": a.clean,
            "checkpoint": a.checkpoint,
            "mounts": a.mounts,
        })),
        "used_bytes": replay.map(|r| r.size().1),
        "checkpoint": replay.map(|r| r.checkpoint()),
        "boundary_epoch": replay.map(|r| r.boundary()),
        "last_epoch": replay.map(|r| r.last_epoch()),
        "log_ends_at": replay.map(|r| r.end()),
        "to_replay": waiting,
    })
}

/// The first byte of other data where a journal would be.
fn occupied(found: &Found) -> Result<Option<u64>> {
    Ok(match found.content()? {
        Content::Data { at } => Some(at * BLOCK_SIZE as u64),
        _ => None,
    })
}

fn print(
    out: &mut impl Write,
    found: &Found,
    about: Option<About>,
    state: Option<&Opened>,
    waiting: Option<&Waiting>,
) -> Result<()> {
    if found.guarded {
        let what = if found.zoned { "refuses to mount the volume" } else { "mounts the volume read-only" };
        writeln!(out, "guard         Linux {what} until its journal was replayed or discarded")?;
    }
    if found.external && found.file.is_none() {
        writeln!(out, "external      {}", segno_engine::Error::JournalNotNamed)?;
    }
    let (Some(about), Some(state)) = (about, state) else {
        let place = found.describe();
        match occupied(found)? {
            Some(byte) => writeln!(out, "no journal; {place} there is other data, first at byte {byte}")?,
            None => {
                let room = size::human(found.area.blocks() * BLOCK_SIZE as u64);
                writeln!(out, "no journal; there is room for one of {room} {place}")?;
            }
        }
        return Ok(());
    };
    writeln!(out, "place         {}", found.describe())?;
    writeln!(out, "ring          {}", size::human(about.bytes))?;
    writeln!(out, "mounts        {}", about.mounts)?;
    let replay = match state {
        Opened::Stale(why) => {
            let state = match why {
                Stale::DamagedGroup { .. } => "damaged",
                why if why.is_damage() => "ahead of the volume, which is damaged",
                _ => "stale",
            };
            return Ok(writeln!(out, "state         {state}: {why}")?);
        }
        Opened::Usable(replay) => replay,
    };
    let (ring, used) = replay.size();
    let percent = used * 100 / ring.max(1);
    writeln!(out, "state         {}", if about.clean { "clean" } else { "usable" })?;
    writeln!(out, "in use        {} ({percent} %)", size::human(used))?;
    writeln!(out, "checkpoint    {:#x}, epochs up to {}", replay.checkpoint(), replay.boundary())?;
    writeln!(out, "log ends at   epoch {}: {}", replay.last_epoch(), replay.end())?;
    if let Some(w) = waiting {
        writeln!(
            out,
            "to replay     {} epochs in {} groups: {} records of {} inodes, {}",
            w.epochs,
            w.groups,
            w.records,
            w.inodes,
            size::human(w.bytes)
        )?;
    }
    Ok(())
}
