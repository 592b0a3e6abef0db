//! The table, the geometric means and the plot.
use super::{Row, Step, pairs};
use crate::mounts::FileSystem;
use crate::page::{Bar, Bars, Figure, Group, Table, short};
use crate::report::Report;
use crate::sample::geometric_mean;

pub fn fill(report: &mut Report, steps: &[&Step], rows: &[Row], rounds: usize) {
    let peers: Vec<&'static str> = FileSystem::ALL
        .map(FileSystem::name)
        .into_iter()
        .filter(|p| rows.iter().any(|r| r.peer == *p))
        .collect();
    let others: Vec<&'static str> = peers.iter().copied().filter(|p| *p != "segno").collect();
    let find = |row: &str, peer: &str| rows.iter().find(|r| r.row == row && r.peer == peer);
    let ratio = |row: &str, peer: &str| find(row, peer).and_then(|r| r.segno_ratio);

    let mut table = Table {
        title: "Rates, and segno's ratio to each".into(),
        head: vec!["row".into(), "unit".into()],
        note: format!(
            "Medians of {rounds} alternating rounds, ± half the range; ratios are medians of those within rounds."
        ),
        ..Table::default()
    };
    table.head.extend(peers.iter().map(ToString::to_string));
    table.head.extend(others.iter().map(|p| format!("/{p}")));
    let mut groups = Vec::new();
    let mut usage = Table {
        title: "Processor time and memory".into(),
        head: [&["row"][..], &peers].concat().into_iter().map(str::to_owned).collect(),
        note: "Of the whole machine during the row, median; resident set of the server at its end, maximum."
            .into(),
        ..Table::default()
    };
    let mut cost = Table {
        title: "Where a unit of work spends its time".into(),
        head: ["row", "segno, µs", "requests", "in the server, µs"].map(str::to_owned).to_vec(),
        note: "Of all threads together. Requests without FORGET; the server's operations with what they wait \
               for, several of them at a time if threads are several; the rest is the kernel, FUSE and the caller."
            .into(),
        ..Table::default()
    };
    for step in steps.iter().filter(|s| find(&s.label, "segno").is_some()) {
        let of = |p: &&str| find(&step.label, p);
        let mut cells = vec![step.label.clone(), step.unit.to_owned()];
        cells.extend(peers.iter().map(|p| of(p).map_or("–".into(), cell)));
        let used = peers.iter().map(|p| of(p).map_or("–".into(), usage_cell));
        usage.rows.push(std::iter::once(step.label.clone()).chain(used).collect());
        cost.rows.extend(of(&"segno").map(cost_cells));
        let ratios: Vec<Option<f64>> = others.iter().map(|p| ratio(&step.label, p)).collect();
        cells.extend(ratios.iter().map(|r| r.map_or("–".into(), |r| format!("{r:.2}"))));
        table.rows.push(cells);
        groups.push(Group {
            name: step.label.clone(),
            bars: ratios.iter().map(|r| r.map(Bar::from)).collect(),
        });
    }
    let pairs = FileSystem::ALL.into_iter().filter(|peer| peer.is_on_request());
    let pairs: Vec<&str> = pairs.map(FileSystem::name).collect();
    let compared = others.iter().filter(|peer| !pairs.contains(peer));
    let notes = compared.filter_map(|peer| mean(peer, steps.iter().filter_map(|s| ratio(&s.label, peer))));
    report.notes.extend(notes);
    report.figures.push(Figure::Table(table));
    report.notes.extend(pairs::means(rows));
    report.figures.extend(pairs::tables(steps, rows).into_iter().map(Figure::Table));
    report.figures.push(Figure::Table(usage));
    report.figures.push(Figure::Table(cost));
    report.figures.push(Figure::Bars(Bars {
        title: "Segno's rate over that of each".into(),
        unit: "ratio".into(),
        log: true,
        reference: Some(1.0),
        series: others.iter().map(ToString::to_string).collect(),
        groups,
    }));
}

/// The geometric mean of segno's ratios to a peer, if there are any.
fn mean(peer: &str, ratios: impl Iterator<Item = f64>) -> Option<String> {
    let ratios: Vec<f64> = ratios.collect();
    let at_most_2: Vec<f64> = ratios.iter().map(|r| r.min(2.0)).collect();
    let (all, capped) = (geometric_mean(&ratios), geometric_mean(&at_most_2));
    (!ratios.is_empty()).then(|| {
        format!(
            "Geometric mean of segno/{peer} over {} rows: {all:.2}, with every row capped at 2 {capped:.2}.",
            ratios.len()
        )
    })
}

fn cell(row: &Row) -> String {
    format!("{} ± {:.0} %", short(row.median), row.spread_percent)
}

fn usage_cell(row: &Row) -> String {
    let memory = row.rss_mib.map_or(String::new(), |mib| format!(", {mib:.0} MiB"));
    format!("{:.2} s{memory}", row.cpu_seconds)
}

fn cost_cells(row: &Row) -> Vec<String> {
    let number = |n: Option<f64>| n.map_or("–".into(), |n| format!("{n:.2}"));
    vec![row.row.clone(), number(Some(1e6 / row.median)), number(row.requests), number(row.server_us)]
}
