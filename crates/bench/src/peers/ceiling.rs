//! The table of shares of the ceiling.
use super::{Row, Step};
use crate::mounts::FileSystem;
use crate::page::{Table, short};
use crate::sample::geometric_mean;

/// A row with fewer requests for a unit is the kernel's alone, and the same through every server.
const REQUESTS_MIN: f64 = 0.01;

fn find<'a>(rows: &'a [Row], row: &str, peer: FileSystem) -> Option<&'a Row> {
    rows.iter().find(|r| r.row == row && r.peer == peer.name())
}

/// One line for each row that the ceiling has run.
pub fn table(steps: &[&Step], rows: &[Row]) -> Option<Table> {
    let lines: Vec<Vec<String>> = steps.iter().filter_map(|step| line(step, rows)).collect();
    let head = [
        "row",
        "unit",
        "segno",
        "ceiling",
        "of ext4",
        "of the ceiling",
        "requests",
        "ceiling's",
        "server CPU, µs",
        "ceiling's",
        "flushes",
        "ceiling's",
    ];
    (!lines.is_empty()).then(|| Table {
        title: "Share of the ceiling of FUSE".into(),
        head: head.map(str::to_owned).to_vec(),
        rows: lines,
        note: "The ceiling is a server with the least that FUSE needs, behind the same session; a strict fsync takes it one flush, which \
               those that wait for another share. Its share is the geometric mean of the \
               ratios within rounds, with the 95 % interval; that of ext4 is their median. Requests without FORGET, processor time \
               of the server (user and kernel) and flushes of the device are for a unit of work."
            .into(),
    })
}

fn line(step: &Step, rows: &[Row]) -> Option<Vec<String>> {
    let of = |peer| find(rows, &step.label, peer);
    let (segno, ceiling) = (of(FileSystem::Segno)?, of(FileSystem::Ceiling)?);
    let number = |n: Option<f64>| n.map_or("–".into(), |n| format!("{n:.2}"));
    let share = ceiling.segno_share.map(|s| format!("{:.2} ({:.2} to {:.2})", s.mean, s.low, s.high));
    // Of one round there is no interval.
    let share = share.unwrap_or_else(|| number(ceiling.segno_ratio));
    let mut cells =
        vec![step.label.clone(), step.unit.to_owned(), short(segno.median), short(ceiling.median)];
    cells.extend([number(of(FileSystem::Ext4).and_then(|r| r.segno_ratio)), share]);
    for column in [|r: &Row| r.requests, |r: &Row| r.server_cpu_us, |r: &Row| r.flushes] {
        cells.extend([segno, ceiling].map(|row| number(column(row))));
    }
    Some(cells)
}

/// The mean over the rows with requests, and the names of those without.
pub fn mean(rows: &[Row]) -> Option<String> {
    let ceilings = rows.iter().filter(|r| r.peer == FileSystem::Ceiling.name() && r.segno_ratio.is_some());
    let (counted, silent): (Vec<&Row>, Vec<&Row>) =
        ceilings.partition(|r| r.requests.is_some_and(|n| n >= REQUESTS_MIN));
    let shares: Vec<f64> =
        counted.iter().filter_map(|r| r.segno_share.map(|s| s.mean).or(r.segno_ratio)).collect();
    let mean = geometric_mean(&shares);
    let silent: Vec<&str> = silent.iter().map(|r| r.row.as_str()).collect();
    let silent = if silent.is_empty() {
        String::new()
    } else {
        format!(" Not counted, as they send no requests: {}.", silent.join("; "))
    };
    (!counted.is_empty()).then(|| {
        format!("Segno has {mean:.2} of the ceiling, the geometric mean over {} rows.{silent}", counted.len())
    })
}
