//! `segno report`: the state of a volume with recommendations, as a page or as JSON.
mod findings;
mod page;
mod state;

use super::info::usage;
use crate::command_line;
use crate::counters::CounterSnapshot;
use crate::document::Schema;
use crate::out::stdout;
use crate::segments::{Segments, write_file};
use crate::storage::DeviceOption;
use crate::time;
use anyhow::Result;
use findings::Finding;
use segno::Time;
use segno_format::superblock::uuid_text;
use serde_json::{Value, json};
use state::State;
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Show the state of a volume with recommendations, as a page
///
/// The page has the map of the segments, the figures of the last checkpoint and, of a mount, its space at this moment and its
/// counters. It needs no other file. Without -o the recommendations are printed.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON: the figures and the recommendations
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Write an HTML page
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the page if it exists
    #[arg(short, long, requires = "output")]
    force: bool,
    #[command(flatten)]
    devices: DeviceOption,
    /// Image file, block device, or directory of a mount
    volume: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let segments = Segments::of(&args.volume, &args.devices)?;
    let state = State::of(&args.volume, &segments)?;
    let findings = findings::of(&state);
    match &args.output {
        Some(path) => {
            let page = page::html(&state, &findings, &now());
            write_file(path, args.force, &args.devices.of(&args.volume)?, page.as_bytes())
        }
        None => print(args.json, &state, &findings),
    }
}

fn print(json: bool, state: &State<'_>, findings: &[Finding]) -> Result<()> {
    let mut out = stdout();
    if json {
        Schema("segno.report", 1).print(&mut out, &document(state, findings))?;
    } else {
        out.write_all(text(findings).as_bytes())?;
    }
    Ok(())
}

fn document(state: &State<'_>, findings: &[Finding]) -> Value {
    let Segments { superblock: sb, checkpoint: cp, .. } = state.segments;
    let (label, label_bytes) = segno_format::text::field(sb.label().as_bytes());
    let mut document = json!({
        "volume": state.name,
        "label": label,
        "uuid": uuid_text(&sb.raw.uuid),
        "features": sb.features.names(),
        "made_by": command_line::made_by().join(": "),
        "is_mounted": state.counters.is_some(),
        "space": state.space,
        "last_checkpoint": usage(sb, cp),
        "segments": state.segments.totals(),
        "counters": state.counters.as_ref().map(CounterSnapshot::values),
        "findings": findings,
    });
    if let (Some(bytes), Some(object)) = (label_bytes, document.as_object_mut()) {
        object.insert("label_bytes".into(), bytes.into());
    }
    document
}

fn text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing needs to be done\n".into();
    }
    findings.iter().map(|f| format!("{}.\n  {}.\n", f.fact, f.advice)).collect()
}

fn now() -> String {
    let secs = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    time::text(Time { secs: secs.cast_signed(), nsec: 0 })
}
