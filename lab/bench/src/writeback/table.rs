//! Each workload with one context and with several, with shared and with exclusive streams.
use super::{Row, plan};
use crate::page::Table;

/// The setups compared, as contexts and streams.
const COLUMNS: [(u32, &str); 4] =
    [(1, "shared"), (1, "exclusive"), (plan::MANY, "shared"), (plan::MANY, "exclusive")];

pub fn contexts_and_streams(rows: &[Row]) -> Table {
    let plain: Vec<&Row> = rows.iter().filter(|r| r.depth == "plain").collect();
    let mut kinds: Vec<_> = plain.iter().map(|r| (r.workload, r.state, r.device)).collect();
    let mut seen = Vec::new();
    kinds.retain(|kind| {
        !seen.contains(kind) && {
            seen.push(*kind);
            true
        }
    });
    let line = |&(workload, state, device): &(&'static str, &'static str, &'static str)| {
        let cell = |(contexts, streams): (u32, &str)| {
            let of_kind = |r: &&&Row| (r.workload, r.state, r.device) == (workload, state, device);
            let found = plain.iter().filter(of_kind).find(|r| (r.contexts, r.streams) == (contexts, streams));
            found.map_or_else(String::new, |r| format!("{:.0} / {}", r.mib_per_s, r.extents))
        };
        [workload, state, device].map(str::to_owned).into_iter().chain(COLUMNS.map(cell)).collect()
    };
    let head = ["workload", "volume", "device"].map(str::to_owned).into_iter();
    Table {
        title: "Contexts and streams: MiB/s / extents".into(),
        head: head.chain(COLUMNS.map(|(contexts, streams)| format!("{contexts} {streams}"))).collect(),
        rows: kinds.iter().map(line).collect(),
        note: "Extents are those of all files at the end; fewer are better.".into(),
    }
}
