//! The same experiment on the engine, with every block that it writes and reads judged.
use super::rig::{Rig, devices};
use super::row::{Interval, Row};
use super::verify;
use crate::progress::Progress;
use anyhow::{Context, Result};
use segno_engine::stat::Recorded;
use segno_gcmodel::{Counters, Experiment, Kind, WriteWaits};
use serde_json::json;
use std::collections::HashMap;
use std::time::Instant;

/// Experiments that `--engine` runs by default.
pub const EXPERIMENTS: [&str; 3] = ["E1", "E2", "E4"];

pub fn run(
    experiment: &Experiment,
    policy: &str,
    lifetime: bool,
    seed: u64,
    writes: u64,
    progress: &mut Progress,
) -> Result<Row> {
    let begun = Instant::now();
    let mut rig = Rig::new(*experiment, devices(experiment)?, policy, lifetime, seed)?;
    let mounted = counts(&rig);
    verify::explained(&mut rig, Rig::lay_out)?;
    let (base, layout_stalls) = (counts(&rig), rig.v.stats().gc_stall.recorded());
    rig.waits = WriteWaits::default();
    let mut quarters = Vec::new();
    for quarter in 1..=4 {
        while rig.written < writes * quarter / 4 {
            verify::explained(&mut rig, Rig::step)
                .with_context(|| format!("after {} application writes", rig.written))?;
            if rig.written.is_multiple_of(writes / 100 + 1) {
                progress.detail(|| {
                    format!("{} {policy} engine: {} %", experiment.name, rig.written * 100 / writes)
                });
            }
        }
        quarters.push(interval(&rig, &base, &layout_stalls));
    }
    let nodes = rig.v.report().iter().find(|(n, _)| *n == "valid_node_count").map_or(0, |&(_, n)| n);
    let waits = std::mem::take(&mut rig.waits);
    let violations = verify::verify(&mut rig)?;
    let row = Row {
        source: "engine",
        r#loop: "engine",
        count_dirty_data: true,
        lifetime,
        node_blocks: nodes,
        layout_writes: base.total() - mounted.total(),
        whole: quarters.last().cloned().context("the run has no end")?,
        zone_violations: violations,
        quarters,
        wall_s: begun.elapsed().as_secs_f64(),
        ..Row::of(experiment, policy, seed)
    };
    Ok(row.with_waits(&waits))
}

/// What the engine counts, and as metadata all other blocks that reached the device.
fn counts(rig: &Rig) -> Counters {
    let all: HashMap<_, _> = rig.v.stats().snapshot().into_iter().collect();
    let get = |name: &str| all.get(name).copied().unwrap_or(0);
    let mut c = Counters { app_writes: rig.written, ..Counters::default() };
    c.wrote(Kind::UserData, get("data_blocks"));
    c.wrote(Kind::MovedData, get("gc_data_blocks"));
    c.wrote(Kind::Nodes, get("node_blocks").saturating_sub(get("gc_node_blocks")));
    c.wrote(Kind::MovedNodes, get("gc_node_blocks"));
    c.wrote(Kind::Dents, get("dent_blocks"));
    let zones = rig.dev.zoned.counts();
    c.wrote(Kind::Pack, zones.blocks_written.saturating_sub(c.total()));
    c.checkpoints = get("checkpoints");
    c.rounds = get("gc_foreground");
    c.sections = [get("gc_sections"), 0];
    c.zone_resets = zones.resets;
    c
}

fn interval(rig: &Rig, base: &Counters, layout_stalls: &Recorded) -> Interval {
    let mut c = counts(rig);
    for (now, then) in c.writes.iter_mut().zip(base.writes) {
        *now = now.saturating_sub(then);
    }
    c.checkpoints -= base.checkpoints;
    c.rounds -= base.rounds;
    c.zone_resets -= base.zone_resets;
    let sections = c.sections.iter().sum::<u64>() - base.sections.iter().sum::<u64>();
    let mut interval = Interval::of(&c);
    for class in [Kind::Sit, Kind::Nat, Kind::Ssa, Kind::Pack] {
        interval.waf_by_class.remove(class.name());
    }
    interval.waf_by_class.insert("meta".into(), json!(c.of(Kind::Pack) as f64 / c.app_writes.max(1) as f64));
    interval.absorbed = 1.0 - c.of(Kind::UserData) as f64 / c.app_writes.max(1) as f64;
    interval.gc_sections = json!({ "data": null, "node": null, "all": sections });
    interval.gc_segments = json!({ "data": null, "node": null });
    let stalls = rig.v.stats().gc_stall.recorded().since(layout_stalls);
    interval.stall_blocks =
        json!({ "p50": stalls.quantile(0.5), "p99": stalls.quantile(0.99), "max": stalls.max() });
    interval
}
