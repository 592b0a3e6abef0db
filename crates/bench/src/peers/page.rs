//! The table, the geometric means and the plot.
use super::{Row, WORK};
use crate::mounts::FileSystem;
use crate::page::{Bar, Bars, Figure, Group, Table, short};
use crate::report::Report;

pub fn fill(report: &mut Report, rows: &[Row], rounds: usize) {
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
    for work in WORK.iter().filter(|w| find(w.name, "segno").is_some()) {
        let mut cells = vec![work.name.to_owned(), work.unit.to_owned()];
        cells.extend(peers.iter().map(|p| find(work.name, p).map_or("–".into(), cell)));
        let ratios: Vec<Option<f64>> = others.iter().map(|p| ratio(work.name, p)).collect();
        cells.extend(ratios.iter().map(|r| r.map_or("–".into(), |r| format!("{r:.2}"))));
        table.rows.push(cells);
        groups
            .push(Group { name: work.name.into(), bars: ratios.iter().map(|r| r.map(Bar::from)).collect() });
    }
    for peer in &others {
        let logs: Vec<f64> = WORK.iter().filter_map(|w| ratio(w.name, peer)).map(f64::ln).collect();
        if !logs.is_empty() {
            let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            report.notes.push(format!("Geometric mean of segno/{peer} over {} rows: {mean:.2}.", logs.len()));
        }
    }
    report.figures.push(Figure::Table(table));
    report.figures.push(Figure::Bars(Bars {
        title: "Segno's rate over that of each".into(),
        unit: "ratio".into(),
        log: true,
        series: others.iter().map(ToString::to_string).collect(),
        groups,
    }));
}

fn cell(row: &Row) -> String {
    format!("{} ± {:.0} %", short(row.median), row.spread_percent)
}
