//! `segno report`: the state of a volume with recommendations, as a page or as JSON.
mod findings;
mod page;

use crate::counters::Moment;
use crate::out::stdout;
use crate::segments::{Segments, write_file};
use crate::show;
use crate::storage::DeviceOption;
use anyhow::Result;
use findings::{Finding, State};
use segno::Time;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Show the state of a volume with recommendations, as a page
///
/// The page has the map of the segments, the figures of the last checkpoint and, of a mount, its counters. It needs no other
/// file. Without -o the recommendations are printed.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON: the recommendations
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
    let counters =
        args.volume.is_dir().then(|| Moment::read(&args.volume)).transpose()?.map(|moment| moment.readings);
    let name = args.volume.display().to_string();
    let state = State { name: &name, segments: &segments, counters: counters.as_deref() };
    let findings = findings::of(&state);
    match &args.output {
        Some(path) => write_file(path, args.force, page::html(&state, &findings, &now()).as_bytes()),
        None => print(args.json, &findings),
    }
}

fn print(json: bool, findings: &[Finding]) -> Result<()> {
    let mut out = stdout();
    if json {
        writeln!(out, "{:#}", json!(findings))?;
    } else {
        out.write_all(text(findings).as_bytes())?;
    }
    Ok(())
}

fn text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing needs to be done\n".into();
    }
    findings.iter().map(|f| format!("{}.\n  {}.\n", f.fact, f.advice)).collect()
}

fn now() -> String {
    let secs = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    show::time(Time { secs: secs.cast_signed(), nsec: 0 })
}
