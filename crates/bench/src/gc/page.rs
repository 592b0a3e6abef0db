//! Tables and plots of the report.
use super::Row;
use crate::page::{Bar, Bars, Figure, Group, Lines, Series, Table, short};

pub fn figures(rows: &[Row]) -> Vec<Figure> {
    let mut policies: Vec<&str> = Vec::new();
    for r in rows {
        if !policies.contains(&r.policy.as_str()) {
            policies.push(&r.policy);
        }
    }
    let groups = rows.chunk_by(|a, b| a.experiment == b.experiment).map(|of| Group {
        name: of.first().map_or(String::new(), |r| r.experiment.clone()),
        bars: policies
            .iter()
            .map(|p| of.iter().find(|r| r.policy == *p).map(|r| Bar { value: r.whole.waf, range: None }))
            .collect(),
    });
    let bars = Bars {
        title: "Write amplification".into(),
        unit: "blocks written for each the application wrote".into(),
        log: false,
        series: policies.iter().map(|&p| p.to_owned()).collect(),
        groups: groups.collect(),
    };
    vec![Figure::Bars(bars), table(rows), over_time(rows)]
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

fn over_time(rows: &[Row]) -> Figure {
    let curve = |r: &Row| Series {
        name: format!("{} {}", r.experiment, r.policy),
        points: r.quarters.iter().map(|q| (q.app_writes as f64, q.waf)).collect(),
    };
    Figure::Lines(Lines {
        title: "From the beginning to each quarter".into(),
        x: "application writes".into(),
        y: "write amplification".into(),
        series: rows.iter().take(8).map(curve).collect(),
        ..Lines::default()
    })
}
