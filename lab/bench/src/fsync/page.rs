//! Tables and plots of the page.
use super::row::FsyncRow;
use crate::page::{Bar, Bars, Figure, Group, Lines, Series, Table, short};
use crate::report::Report;

/// Published figures for comparison.
const PAPER: [&str; 4] = [
    "Gwak, Jung, Shin (2021), F2FS of Linux 4.15 on a quad core with a Samsung 970: varmail searched 12 100 nodes an fsync \
     to write about 1.2, the node phase was 63 % of an fsync, and lists gave +37 % throughput and -33 % fsync latency.",
    "4 KiB writes by 4 threads with an fsync every 32: 520 nodes searched to write 1; lists gave +170 % throughput and -31 % \
     latency. In a closed loop -31 % latency alone gives at most +45 %.",
    "A gain here depends on how long the other phases take: a flush that takes longer hides the search, a search that is \
     cheaper than the kernel's leaves less to gain. See the table of phases.",
    "The global search takes nodes in batches of 15 in order of their numbers, looks at owner and kind, and locks and looks \
     again at those that fit, as F2FS does. It runs under the lock of the roll-forward chain, which F2FS does not hold, so \
     that searches of different files wait for each other: gains are upper bounds. Both modes write the same bytes.",
];

pub fn fill(report: &mut Report, rows: &[FsyncRow]) {
    let inside: Vec<&FsyncRow> = rows.iter().filter(|r| r.phase_us.is_some()).collect();
    let other_inodes: Vec<&FsyncRow> =
        inside.iter().copied().filter(|r| r.workload.starts_with("foreign")).collect();
    let work: Vec<&FsyncRow> =
        inside.iter().copied().filter(|r| !r.workload.starts_with("foreign")).collect();
    let mounted: Vec<&FsyncRow> = rows.iter().filter(|r| r.target != "in-process").collect();
    let mut out = vec![
        Figure::Table(searches(&inside)),
        bars("Operations a second", "operations/s", &work, |r| r.ops_per_s, Some(|r| r.ops_spread_percent)),
        phases(&work),
        Figure::Table(phase_table(&inside)),
        lookups(&other_inodes),
    ];
    out.extend(
        inside.chunk_by(|a, b| a.workload == b.workload).map(|rows| latencies("in-process", rows, mode)),
    );
    if !mounted.is_empty() {
        out.push(Figure::Table(mount_table(&mounted)));
        out.push(mount_bars(&mounted));
        let target = |r: &FsyncRow| r.target.clone();
        out.extend(
            mounted.chunk_by(|a, b| a.workload == b.workload).map(|rows| latencies("mounts", rows, target)),
        );
    }
    out.push(Figure::Text {
        title: "What to compare with".into(),
        paragraphs: PAPER.iter().map(|p| (*p).to_owned()).collect(),
    });
    report.figures = out;
}

fn number(v: Option<f64>) -> String {
    v.map_or(String::new(), short)
}

fn mode(r: &FsyncRow) -> String {
    r.mode.unwrap_or("").to_owned()
}

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn searches(rows: &[&FsyncRow]) -> Table {
    let row = |r: &&FsyncRow| {
        let ratio = match (r.searched_per_fsync, r.written_per_fsync) {
            (Some(s), Some(w)) if s > 0.0 => format!("{} %", short(w / s * 100.0)),
            _ => String::new(),
        };
        vec![
            r.workload.clone(),
            mode(r),
            number(r.dirty_nodes),
            number(r.searched_per_fsync),
            number(r.written_per_fsync),
            ratio,
            short(r.fsync_us.avg),
            short(r.fsync_us.p50),
            short(r.fsync_us.p99),
            short(r.ops_per_s),
            format!("± {} %", short(r.ops_spread_percent)),
        ]
    };
    Table {
        title: "Nodes searched and written, latency and throughput".into(),
        head: head(&[
            "workload",
            "mode",
            "dirty at start",
            "searched",
            "written",
            "ratio",
            "avg µs",
            "p50",
            "p99",
            "ops/s",
            "spread",
        ]),
        rows: rows.iter().map(row).collect(),
        note: "Nodes are counted for each fsync. Medians over rounds; the spread is half the range.".into(),
    }
}

fn phase_table(rows: &[&FsyncRow]) -> Table {
    let row = |r: &&FsyncRow| {
        let p = r.phase_us.unwrap_or_default();
        let share = p.node / (p.data + p.node + p.flush + p.checkpoint).max(1e-9) * 100.0;
        vec![
            r.workload.clone(),
            mode(r),
            short(p.data),
            short(p.node),
            short(p.lookup),
            short(p.flush),
            short(p.checkpoint),
            format!("{share:.0} %"),
            number(r.flushes_per_fsync),
            number(r.checkpoints),
        ]
    };
    Table {
        title: "Where an fsync spends its time".into(),
        head: head(&[
            "workload", "mode", "data µs", "node", "of it lookup", "flush", "checkpoint", "node share", "flushes", "checkpoints",
        ]),
        rows: rows.iter().map(row).collect(),
        note: "Averages for each fsync. The node phase includes the wait for others who write nodes. Flushes are those issued \
               to the device, for each fsync; one serves all who wait."
            .into(),
    }
}

type Of = fn(&FsyncRow) -> f64;

/// List and global search side by side for each workload.
fn bars(title: &str, unit: &str, rows: &[&FsyncRow], of: Of, spread: Option<Of>) -> Figure {
    let series = ["list", "global"];
    let mut groups: Vec<Group> = Vec::new();
    for r in rows {
        let name = r.workload.replace(", fsync every 32", " /32");
        if groups.iter().all(|g| g.name != name) {
            groups.push(Group { name: name.clone(), bars: vec![None; series.len()] });
        }
        let Some(place) = series.iter().position(|s| r.mode == Some(*s)) else { continue };
        let value = of(r);
        let range = spread.map(|s| (value * (1.0 - s(r) / 100.0), value * (1.0 + s(r) / 100.0)));
        let group = groups.iter_mut().find(|g| g.name == name);
        if let Some(bar) = group.and_then(|g| g.bars.get_mut(place)) {
            *bar = Some(Bar { value, range });
        }
    }
    Figure::Bars(Bars {
        title: title.into(),
        unit: unit.into(),
        series: series.map(str::to_owned).to_vec(),
        groups,
        ..Bars::default()
    })
}

/// Phases side by side, a group for each workload and mode.
fn phases(rows: &[&FsyncRow]) -> Figure {
    let group = |r: &&FsyncRow| {
        let p = r.phase_us.unwrap_or_default();
        let short_name = r
            .workload
            .replace("varmail ", "vm ")
            .replace(" files", "")
            .replace("4 KiB writes, fsync every 32", "w/32");
        Group {
            name: format!("{short_name} {}", mode(r)),
            bars: [p.data, p.node, p.flush].map(|v| Some(Bar::from(v))).to_vec(),
        }
    };
    Figure::Bars(Bars {
        title: "Phases of an fsync".into(),
        unit: "µs".into(),
        log: true,
        series: head(&["data", "node", "flush"]),
        groups: rows.iter().map(group).collect(),
        ..Bars::default()
    })
}

/// Of one workload, a line for each mode or file system.
fn latencies(what: &str, rows: &[&FsyncRow], name: impl Fn(&FsyncRow) -> String) -> Figure {
    let series = rows.iter().map(|r| Series::cumulative(name(r), &r.latency));
    let workload = rows.first().map_or("", |r| &r.workload);
    Figure::Lines(Lines::latencies(format!("Latency of fsync, {what}: {workload}"), "fsyncs", series))
}

fn lookups(rows: &[&FsyncRow]) -> Figure {
    let series = ["list", "global"].map(|name| Series {
        name: name.to_owned(),
        points: rows
            .iter()
            .filter(|r| r.mode == Some(name))
            .filter_map(|r| Some((r.dirty_nodes?, r.lookup_ns?.p50)))
            .collect(),
    });
    Figure::Lines(Lines {
        title: "Finding the nodes of one file, by dirty nodes of others".into(),
        x: "dirty nodes".into(),
        y: "ns, median".into(),
        log_x: true,
        log_y: true,
        series: series.to_vec(),
    })
}

fn mount_table(rows: &[&FsyncRow]) -> Table {
    let row = |r: &&FsyncRow| {
        vec![
            r.workload.clone(),
            r.target.clone(),
            short(r.fsync_us.avg),
            short(r.fsync_us.p50),
            short(r.fsync_us.p99),
            short(r.ops_per_s),
            format!("± {} %", short(r.ops_spread_percent)),
        ]
    };
    Table {
        title: "Through mounts, on the same disk".into(),
        head: head(&["workload", "file system", "fsync avg µs", "p50", "p99", "ops/s", "spread"]),
        rows: rows.iter().map(row).collect(),
        note: "Each on an image in the same folder. The kernel's file systems are on a loop device.".into(),
    }
}

fn mount_bars(rows: &[&FsyncRow]) -> Figure {
    let mut series: Vec<String> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for r in rows {
        if !series.contains(&r.target) {
            series.push(r.target.clone());
        }
        if !names.contains(&r.workload.as_str()) {
            names.push(&r.workload);
        }
    }
    let bar = |name: &str, target: &String| {
        let found = rows.iter().find(|r| r.workload == name && r.target == *target);
        found.map(|r| Bar::from(r.fsync_us.p50))
    };
    let groups = names
        .iter()
        .map(|n| Group { name: (*n).to_owned(), bars: series.iter().map(|t| bar(n, t)).collect() })
        .collect();
    Figure::Bars(Bars {
        title: "fsync through mounts, median".into(),
        unit: "µs".into(),
        log: true,
        series,
        groups,
        ..Bars::default()
    })
}
