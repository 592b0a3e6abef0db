//! Segno row by row against the ceiling of FUSE, and against itself with other options.
use super::{Row, Step};
use crate::mounts::FileSystem;
use crate::page::{Table, short};
use crate::sample::geometric_mean;

/// A row with fewer requests for a unit does not depend on the server.
const REQUESTS_MIN: f64 = 0.01;

const SHARES: &str = "Shares are geometric means of the ratios within rounds, with the 95 % interval; that of ext4 is their median. \
    Requests without FORGET, processor time of the server (user and kernel) and flushes of the device are for a unit of work.";

/// The table for a peer whose session counts requests.
struct Pair {
    peer: FileSystem,
    title: &'static str,
    note: &'static str,
}

const PAIRS: [Pair; 3] = [
    Pair {
        peer: FileSystem::Ceiling,
        title: "Share of the ceiling of FUSE",
        note: "The ceiling is a minimal FUSE server with the same session; it flushes once for a strict fsync, and fsyncs that wait \
               for a flush share the next one.",
    },
    Pair {
        peer: FileSystem::NoJournal,
        title: "With the journal against a volume without it",
        note: "Both are the same program with the same options; above 1 the journal is faster.",
    },
    Pair {
        peer: FileSystem::WritebackCache,
        title: "Write-through against writeback_cache",
        note: "Both are the same program, with the journal; below 1 writeback_cache is faster.",
    },
];

fn find<'a>(rows: &'a [Row], row: &str, peer: FileSystem) -> Option<&'a Row> {
    rows.iter().find(|r| r.row == row && r.peer == peer.name())
}

/// A table for each of the pairs that were run.
pub fn tables(steps: &[&Step], rows: &[Row]) -> Vec<Table> {
    PAIRS.iter().filter_map(|pair| table(pair, steps, rows)).collect()
}

/// One line for each row that the peer has run.
fn table(pair: &Pair, steps: &[&Step], rows: &[Row]) -> Option<Table> {
    let lines: Vec<Vec<String>> = steps.iter().filter_map(|step| line(pair.peer, step, rows)).collect();
    let name = pair.peer.name();
    let of_peer = format!("of {name}");
    let its = format!("{name}'s");
    let head = ["row", "unit", "segno", name, "of ext4", &of_peer];
    let measured = ["requests", "server CPU, µs", "flushes"].into_iter().flat_map(|column| [column, &its]);
    (!lines.is_empty()).then(|| Table {
        title: pair.title.into(),
        head: head.into_iter().chain(measured).map(str::to_owned).collect(),
        rows: lines,
        note: format!("{} {SHARES}", pair.note),
    })
}

fn line(peer: FileSystem, step: &Step, rows: &[Row]) -> Option<Vec<String>> {
    let of = |peer| find(rows, &step.label, peer);
    let (segno, other) = (of(FileSystem::Segno)?, of(peer)?);
    let number = |n: Option<f64>| n.map_or("–".into(), |n| format!("{n:.2}"));
    let share = other.segno_share.map(|s| format!("{:.2} ({:.2} to {:.2})", s.mean, s.low, s.high));
    // Of one round there is no interval.
    let share = share.unwrap_or_else(|| number(other.segno_ratio));
    let mut cells = vec![step.label.clone(), step.unit.to_owned(), short(segno.median), short(other.median)];
    cells.extend([number(of(FileSystem::Ext4).and_then(|r| r.segno_ratio)), share]);
    for column in [|r: &Row| r.requests, |r: &Row| r.server_cpu_us, |r: &Row| r.flushes] {
        cells.extend([segno, other].map(|row| number(column(row))));
    }
    Some(cells)
}

/// For each pair the mean over the rows with requests, and the names of those without.
pub fn means(rows: &[Row]) -> Vec<String> {
    PAIRS.iter().filter_map(|pair| mean(pair.peer, rows)).collect()
}

fn mean(peer: FileSystem, rows: &[Row]) -> Option<String> {
    let theirs = rows.iter().filter(|r| r.peer == peer.name() && r.segno_ratio.is_some());
    let (counted, silent): (Vec<&Row>, Vec<&Row>) =
        theirs.partition(|r| r.requests.is_some_and(|n| n >= REQUESTS_MIN));
    let shares: Vec<f64> =
        counted.iter().filter_map(|r| r.segno_share.map(|s| s.mean).or(r.segno_ratio)).collect();
    let mean = geometric_mean(&shares);
    let slower: Vec<&str> = counted
        .iter()
        .filter(|r| peer == FileSystem::NoJournal && r.segno_share.is_some_and(|s| s.high < 1.0))
        .map(|r| r.row.as_str())
        .collect();
    let silent: Vec<&str> = silent.iter().map(|r| r.row.as_str()).collect();
    let list = |names: &[&str], text: &str| {
        if names.is_empty() { String::new() } else { format!(" {text}: {}.", names.join("; ")) }
    };
    (!counted.is_empty()).then(|| {
        format!(
            "Segno has {mean:.2} of {}, the geometric mean over {} rows.{}{}",
            if peer == FileSystem::Ceiling { "the ceiling" } else { peer.name() },
            counted.len(),
            list(&slower, "Slower, with an interval below 1"),
            list(&silent, "Not counted, as they send no requests")
        )
    })
}
