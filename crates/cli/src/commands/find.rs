//! `segno find`: the volumes in a disk image.
use crate::confine::{ConfineOption, Confinement};
use crate::document::Schema;
use crate::exit::Outcome;
use crate::out::stdout;
use crate::progress::Progress;
use crate::show;
use crate::tag;
use anyhow::Context;
use segno::find::{Found, Holds, Part, find};
use segno_format::size;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// List the volumes in a disk image, and how to name them
///
/// Reads GPT, MBR and Android super images, raw or sparse. Finds the volume that follows a squashfs, and
/// searches all of an image without partition table. All commands take the names: IMAGE#2 is the second
/// partition, IMAGE#NAME the partition of that name, IMAGE#@BYTES the volume that begins at that byte. The
/// exit code is 1 if there is no volume.
#[derive(clap::Args)]
pub struct Args {
    /// Report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    confine: ConfineOption,
    /// Disk image or block device
    image: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    let image = tag::resolve(&args.image)?;
    Confinement::new(&args.confine).reads(&image).enter();
    let mut shown = Progress::default();
    let found = find(&image, &mut |bytes| shown.show(|| format!("{} searched", size::human(bytes))))?;
    drop(shown);
    let mut out = stdout();
    if args.json {
        Schema("segno.find", 1).print(&mut out, &report(&found))?;
    } else {
        print(&mut out, &found).context("cannot print")?;
    }
    if let Some(problem) = &found.problem {
        eprintln!("segno: {} {problem}", image.display());
    }
    let any = found.problem.is_none() && found.parts.iter().any(Part::is_volume);
    Ok(if any { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(out: &mut impl Write, found: &Found) -> std::io::Result<()> {
    match found.table {
        Some(kind) => writeln!(out, "{kind}")?,
        None => writeln!(out, "no partition table")?,
    }
    for part in &found.parts {
        let name = part.partition.as_ref().map(|p| p.name.as_str()).unwrap_or_default();
        let location = show::path(&part.location);
        let (offset, bytes) = (part.offset, size::human(part.bytes));
        writeln!(out, "{location}  at {offset}, {bytes}{}: {}", named(name), holds(&part.holds))?;
    }
    Ok(())
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(", {}", name.escape_debug()) }
}

fn holds(holds: &Holds) -> String {
    match holds {
        Holds::Volume { label, uuid, bytes, state } => {
            let label = if label.is_empty() { String::new() } else { format!(" {:?}", label) };
            format!("F2FS{label}, {}, {uuid}, {state}", size::human(*bytes))
        }
        Holds::Other(contents) => contents.to_string(),
        Holds::Unreadable(why) => why.clone(),
        other => format!("{other:?}"),
    }
}

fn report(found: &Found) -> Value {
    let parts: Vec<Value> = found.parts.iter().map(part).collect();
    json!({
        "table": found.table.map(|kind| kind.to_string()),
        "problem": found.problem.as_ref().map(ToString::to_string),
        "parts": parts,
    })
}

fn part(part: &Part) -> Value {
    let entry = part.partition.as_ref();
    let mut value = json!({
        "location": show::path(&part.location).to_string(),
        "number": entry.and_then(|p| p.number),
        "name": entry.map(|p| p.name.clone()),
        "partuuid": entry.and_then(|p| p.uuid).map(|uuid| uuid.to_string()),
        "offset": part.offset,
        "bytes": part.bytes,
    });
    match &part.holds {
        Holds::Volume { label, uuid, bytes, state } => {
            value["volume"] =
                json!({ "label": label, "uuid": uuid, "bytes": bytes, "state": state.to_string() });
        }
        other => value["contents"] = holds(other).into(),
    }
    value
}
