//! `segno bench device`: raw performance of the device, without Segno. Every other experiment measures it as well, for
//! comparison.
use crate::machine::Machine;
use crate::options::Common;
use crate::page::{Bar, Bars, Figure, Group};
use crate::progress::Progress;
use crate::raw::{self, Raw};
use crate::report::Report;
use crate::sample::Sample;
use anyhow::Result;
use serde::Serialize;
use serde_json::json;

/// Schema of a row.
pub const ROWS: &str = include_str!("../../schema/device.json");
const BYTES: u64 = 4 << 30;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
}

#[derive(Serialize)]
struct Row {
    figure: &'static str,
    #[serde(flatten)]
    sample: Sample,
}

pub fn run(args: &Args) -> Result<Report> {
    let common = &args.common;
    let place = common.place(BYTES)?;
    let budget = common.budget();
    let mut progress = Progress::new(common.rounds());
    let mut rounds: Vec<Raw> = Vec::new();
    while rounds.len() < common.rounds() && (rounds.is_empty() || budget.has_time_for_another(rounds.len())) {
        progress.step("measuring the device");
        rounds.push(raw::measure(&*place.device()?, common.raw_time())?);
    }
    drop(progress);
    let config =
        json!({ "bytes": BYTES, "rounds": rounds.len(), "seconds_each": common.raw_time().as_secs_f64() });
    let mut report = Report::new("device", common.seed, &config, Machine::here(Some(place.storage(None)?)))?;
    report.note_rounds("the device", rounds.len(), common.rounds());
    let mut groups = Vec::new();
    let mut add = |figure: &'static str, of: fn(&Raw) -> f64| {
        let sample = Sample::of(&rounds.iter().map(of).collect::<Vec<_>>());
        groups.push(Group { name: figure.to_owned(), bars: vec![Some(Bar::from(sample))] });
        report.push(&Row { figure, sample })
    };
    add("seq_write_mib_per_s", |r| r.seq_write_mib_per_s)?;
    add("rand_write_4k_mib_per_s", |r| r.rand_write_4k_mib_per_s)?;
    add("write_flush_us", |r| r.write_flush_us)?;
    add("memcpy_mib_per_s", |r| r.memcpy_mib_per_s)?;
    report.figures.push(Figure::Bars(Bars {
        title: "Raw device".into(),
        unit: "MiB/s, or µs".into(),
        log: true,
        series: vec![String::new()],
        groups,
        ..Bars::default()
    }));
    Ok(report)
}
