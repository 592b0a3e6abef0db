//! What writeback has to show, and what this run showed.
use super::Row;
use crate::machine::Machine;
use crate::page::Table;

/// How a requirement is shown.
enum Proof {
    /// A test of that name, in the tests of the engine or of the program.
    Test(&'static str),
    Figure(fn(&[Row]) -> Option<String>),
    Not(&'static str),
}
use Proof::{Figure, Not, Test};

const REQUIREMENTS: [(&str, &str, Proof); 27] = [
    ("W-1", "contexts and threads bounded by constants and processors, never by geometry", Figure(threads)),
    (
        "W-2",
        "a file stays with its context wherever its blocks go",
        Test("writeback: a_file_stays_with_its_context_and_stream_through_full_regions"),
    ),
    (
        "W-3",
        "files with unlucky inode numbers use all contexts",
        Test("writeback: files_go_to_all_contexts_whatever_their_numbers"),
    ),
    ("W-4", "few allocator calls for sequential data", Figure(calls)),
    ("W-5", "a good baseline: raw, one context, several", Figure(baseline)),
    (
        "W-6",
        "the run can be repeated",
        Test("bench: `--output` writes machine, options, seed and format; the schema is checked"),
    ),
    ("W-7", "part of raw bandwidth", Figure(part_of_raw)),
    ("W-8", "queue depth told apart from contexts", Figure(depth)),
    ("W-9", "fresh, reused and aged volumes", Figure(states)),
    ("W-10", "long extents for sequential writers", Figure(extents)),
    (
        "W-11",
        "reasons of short allocations are counted",
        Test(
            "writeback: a_file_stays_with_its_context_and_stream_through_full_regions; `stream_claims_broken_by_use`, `stream_claims_broken_by_claim`, `stream_refusals` in `segno stats`",
        ),
    ),
    ("W-12", "contexts and streams told apart", Figure(ablation)),
    (
        "W-13",
        "one definition of an extent, live and from an image",
        Test("scripts/smoke: `segno extents` of the mount and of the image count the same"),
    ),
    ("W-14", "a right default, changed at run time", Test("writeback: number; scripts/smoke: `segno ctl`")),
    ("W-15", "no freeze when the number changes", Figure(change)),
    (
        "W-16",
        "one context for one processor or spinning disk",
        Not(
            "one processor: test writeback: number. Spinning disks are not asked for: virtual disks say that they are \
             spinning when they are not, and a file that is written in sequence has a stream of its own in any case",
        ),
    ),
    ("W-17", "aged volumes count", Figure(aged)),
    ("W-18", "write amplification", Figure(waf)),
    (
        "W-19",
        "policies of binding compared",
        Not(
            "one policy, sticky, else by load, meets the figures; a second one is a knob that nothing asks for",
        ),
    ),
    (
        "W-20",
        "a flush is complete when all helpers are",
        Test("writeback: the_number_changes_under_load (a sync leaves nothing dirty)"),
    ),
    ("W-21", "one worker a file", Test("the flush claim; data: threads")),
    ("W-22", "a flush of everything reaches every context", Test("writeback: the_number_changes_under_load")),
    (
        "W-23",
        "a lane for overwrites in place",
        Not(
            "not needed: only pinned files are overwritten in place, and those take no addresses and wait for no stream",
        ),
    ),
    ("W-24", "helpers for costly submission", Not("nothing is compressed or encrypted on the way out yet")),
    ("W-25", "cases without gain are published", Figure(no_gain)),
    ("W-26", "a small interface to dirty state", Test("by construction: mark_dirty, settle, all")),
    (
        "W-27",
        "no ENOSPC that one log would not give",
        Test("writeback: a_full_volume_is_as_full_with_many_contexts"),
    ),
];

pub fn table(rows: &[Row]) -> Table {
    let line = |(id, what, proof): &(&str, &str, Proof)| {
        let (how, outcome) = match proof {
            Test(name) => (format!("test: {name}"), "runs with the tests".to_owned()),
            Figure(f) => ("measured".to_owned(), f(rows).unwrap_or_else(|| "not in this run".to_owned())),
            Not(why) => ("left out".to_owned(), (*why).to_owned()),
        };
        vec![(*id).to_owned(), (*what).to_owned(), how, outcome]
    };
    Table {
        title: "Requirements".into(),
        head: ["id", "requirement", "shown by", "outcome"].map(str::to_owned).to_vec(),
        rows: REQUIREMENTS.iter().map(line).collect(),
        note: String::new(),
    }
}

pub fn markdown(table: &Table, machine: &Machine) -> String {
    let mut out = format!(
        "# Writeback: requirements and what a run showed\n\nWritten by `segno bench writeback --table`; command: `{}`. \
         {} processors ({}), {}, load {} when it began.\n\n| {} |\n|---|---|---|---|\n",
        machine.command.iter().skip(1).cloned().collect::<Vec<_>>().join(" "),
        machine.cpus,
        machine.cpu,
        machine.kernel,
        machine.load,
        table.head.join(" | ")
    );
    for row in &table.rows {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    out
}

fn find<'r>(
    rows: &'r [Row],
    workload: &str,
    state: &str,
    device: &str,
    contexts: u32,
    exclusive: bool,
) -> Option<&'r Row> {
    let streams = if exclusive { "exclusive" } else { "shared" };
    rows.iter().filter(|r| r.depth == "plain").find(|r| {
        (r.workload, r.state, r.contexts, r.streams) == (workload, state, contexts, streams)
            && r.device.starts_with(device)
    })
}

const MANY: u32 = super::plan::MANY;
const MOST: u32 = super::plan::MOST;

fn threads(rows: &[Row]) -> Option<String> {
    let most = rows.iter().max_by_key(|r| r.threads)?;
    let contexts = rows.iter().map(|r| r.contexts).max()?;
    Some(format!(
        "{} threads at most, with up to {contexts} contexts; test writeback: number for the largest volume",
        most.threads
    ))
}
fn calls(rows: &[Row]) -> Option<String> {
    let r = find(rows, "sequential", "fresh", "memory", MANY, true)?;
    Some(format!("{:.2} calls for 2 MiB", r.alloc_calls_per_gib / 512.0))
}
fn baseline(rows: &[Row]) -> Option<String> {
    let (one, many) = (
        find(rows, "sequential", "fresh", "real", 1, true)?,
        find(rows, "sequential", "fresh", "real", MANY, true)?,
    );
    Some(format!(
        "MiB/s on the disk: raw {:.0}, one context {:.0}, {MANY} contexts {:.0}",
        one.raw_mib_per_s, one.mib_per_s, many.mib_per_s
    ))
}
fn part_of_raw(rows: &[Row]) -> Option<String> {
    let of = |n, d| find(rows, "sequential", "fresh", d, n, true);
    let (one, many, copies) = (of(1, "real")?, of(MANY, "real")?, of(1, "memory")?);
    Some(format!(
        "{:.0} % of raw with one context, {:.0} % with {MANY}; {:.0} MiB/s on a device that takes no time",
        one.of_raw * 100.0,
        many.of_raw * 100.0,
        copies.mib_per_s
    ))
}
fn depth(rows: &[Row]) -> Option<String> {
    let (one, many) = (
        find(rows, "random", "fresh", "model", 1, true)?,
        find(rows, "random", "fresh", "model", MANY, true)?,
    );
    let split = rows.iter().find(|r| r.depth == "split")?;
    let of = |r: &Row| r.mib_per_s / one.mib_per_s;
    Some(format!(
        "model, random: {MANY} contexts {:.1} times one; one context with split writes {:.1} times",
        of(many),
        of(split)
    ))
}
fn states(rows: &[Row]) -> Option<String> {
    let mut found: Vec<&str> = rows.iter().map(|r| r.state).collect();
    found.sort_unstable();
    found.dedup();
    Some(found.join(", "))
}
fn extents(rows: &[Row]) -> Option<String> {
    let of = |n| {
        rows.iter()
            .filter(|r| r.workload == "sequential" && r.device == "memory" && r.contexts == n)
            .max_by(|a, b| a.mib.total_cmp(&b.mib))
    };
    let (one, many) = (of(1)?, of(MANY)?);
    Some(format!(
        "{} files of {:.0} MiB: mean extent {:.0} MiB with {MANY} contexts ({} extents, best possible {}), {} extents with one",
        many.writers,
        many.mib / many.writers as f64,
        many.mean_extent_mib,
        many.extents,
        many.best_extents,
        one.extents
    ))
}
fn ablation(rows: &[Row]) -> Option<String> {
    let of = |n, x| {
        find(rows, "sequential", "fresh", "real", n, x)
            .map(|r| format!("{:.0} MiB/s in {} extents", r.mib_per_s, r.extents))
    };
    Some(format!(
        "disk, sequential: 1 shared {}; 1 exclusive {}; {MANY} shared {}; {MANY} exclusive {}",
        of(1, false)?,
        of(1, true)?,
        of(MANY, false)?,
        of(MANY, true)?
    ))
}
fn change(rows: &[Row]) -> Option<String> {
    let (fixed, change) = (
        find(rows, "sequential", "fresh", "real", MANY, true)?,
        find(rows, "change", "fresh", "real", MANY, true)?,
    );
    Some(format!(
        "changing every 100 ms: {:.0} MiB/s against {:.0}; test writeback: the_number_changes_under_load",
        change.mib_per_s, fixed.mib_per_s
    ))
}
fn aged(rows: &[Row]) -> Option<String> {
    let (one, many) = (
        find(rows, "sequential", "aged", "memory", 1, true)?,
        find(rows, "sequential", "aged", "memory", MANY, true)?,
    );
    Some(format!(
        "extents: one context {}, {MANY} contexts {}, best possible {}",
        one.extents, many.extents, many.best_extents
    ))
}
fn waf(rows: &[Row]) -> Option<String> {
    let of = |w, n| find(rows, w, "fresh", "real", n, true).map(|r| r.waf);
    Some(format!(
        "sequential {:.3} and {:.3}, random {:.3} and {:.3} (one context, {MANY})",
        of("sequential", 1)?,
        of("sequential", MANY)?,
        of("random", 1)?,
        of("random", MANY)?
    ))
}
fn no_gain(rows: &[Row]) -> Option<String> {
    let of = |w, d| {
        Some(find(rows, w, "fresh", d, MANY, true)?.mib_per_s / find(rows, w, "fresh", d, 1, true)?.mib_per_s)
    };
    Some(format!(
        "{MANY} contexts against one: sequential on the disk {:.2}, random on the disk {:.2}, sequential in memory {:.2}; {MOST} \
         against the best number, random: on the disk {:.2}, on the model {:.2}",
        of("sequential", "real")?,
        of("random", "real")?,
        of("sequential", "memory")?,
        of_the_best(rows, "real")?,
        of_the_best(rows, "model")?
    ))
}
/// Random writes with the most contexts there can be, as a part of what the best other number gives.
fn of_the_best(rows: &[Row], device: &str) -> Option<f64> {
    let most = find(rows, "random", "fresh", device, MOST, true)?;
    let others = rows.iter().filter(|r| {
        r.workload == "random" && r.depth == "plain" && r.device == most.device && r.contexts < MOST
    });
    let best = others.map(|r| r.mib_per_s).max_by(f64::total_cmp)?;
    Some(most.mib_per_s / best)
}
