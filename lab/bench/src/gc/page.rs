//! Tables and plots of the report.
use super::Row;
use crate::page::{Bar, Bars, Figure, Group, Lines, Series, Table, short};

pub fn figures(rows: &[Row]) -> Vec<Figure> {
    let mut policies: Vec<String> = Vec::new();
    for name in rows.iter().map(name) {
        if !policies.contains(&name) {
            policies.push(name);
        }
    }
    let groups = rows.chunk_by(|a, b| a.experiment == b.experiment).map(|of| Group {
        name: of.first().map_or(String::new(), |r| r.experiment.clone()),
        bars: policies
            .iter()
            .map(|p| of.iter().find(|r| name(r) == *p).map(|r| Bar { value: r.whole.waf, range: None }))
            .collect(),
    });
    let bars = Bars {
        title: "Write amplification".into(),
        unit: "blocks written for each the application wrote".into(),
        log: true,
        reference: Some(1.0),
        groups: groups.collect(),
        series: policies,
    };
    let by_experiment = rows.chunk_by(|a, b| a.experiment == b.experiment);
    [Figure::Bars(bars), table(rows)].into_iter().chain(by_experiment.map(over_time)).collect()
}

fn table(rows: &[Row]) -> Figure {
    let classes: Vec<String> =
        rows.first().map_or(Vec::new(), |r| r.whole.waf_by_class.keys().cloned().collect());
    let mut head: Vec<String> =
        ["experiment", "policy", "loop", "application writes", "amplification"].map(String::from).to_vec();
    head.extend(classes.iter().cloned());
    head.extend(["checkpoints", "stall p99", "zone violations", "s"].map(String::from));
    let line = |r: &Row| {
        let mut out = vec![
            r.experiment.clone(),
            r.policy.clone(),
            r.r#loop.to_owned(),
            r.whole.app_writes.to_string(),
            format!("{:.3}", r.whole.waf),
        ];
        let of = |class: &String| {
            r.whole.waf_by_class.get(class).and_then(serde_json::Value::as_f64).unwrap_or(0.0)
        };
        out.extend(classes.iter().map(|c| format!("{:.3}", of(c))));
        out.extend([
            r.whole.checkpoints.to_string(),
            r.whole.stall_blocks["p99"].to_string(),
            r.zone_violations.to_string(),
            short(r.wall_s),
        ]);
        out
    };
    Figure::Table(Table {
        title: "By class".into(),
        head,
        rows: rows.iter().map(line).collect(),
        note: "Blocks for each application write; the classes sum up to the amplification. Stall: blocks moved while a \
               writer waited, as the upper bound of a power of two."
            .into(),
    })
}

/// The policies of one experiment.
fn over_time(rows: &[Row]) -> Figure {
    let curve = |r: &Row| Series {
        name: name(r),
        points: r.quarters.iter().map(|q| (q.app_writes as f64, q.waf)).collect(),
    };
    Figure::Lines(Lines {
        title: format!("{}: from the beginning to each quarter", rows.first().map_or("", |r| &r.experiment)),
        x: "application writes".into(),
        y: "write amplification".into(),
        series: rows.iter().map(curve).collect(),
        ..Lines::default()
    })
}

/// The policy, and where it ran.
fn name(row: &Row) -> String {
    if row.source == "model" { row.policy.clone() } else { format!("{} in the engine", row.policy) }
}
