//! A row of the report.
use super::order_name;
use anyhow::{Result, anyhow};
use segno_gcmodel::{Counters, Experiment, Kind, Outcome, Setting, Waits, WriteWaits};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// One run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    pub source: &'static str,
    pub experiment: String,
    pub policy: String,
    pub r#loop: &'static str,
    pub seed: u64,
    pub sections: u32,
    pub section_blocks: u32,
    /// Sections.
    pub reserve: u32,
    pub overprovision_percent: f64,
    /// Share of the main area that the files' blocks take.
    pub fill: f64,
    pub distribution: String,
    pub fsync_every: Option<u64>,
    pub dirty_percent: f64,
    pub dirty_pages: u64,
    pub count_dirty_data: bool,
    pub lifetime: bool,
    /// Of `--oracle`: amplification, groups and policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oracle: Option<Value>,
    pub file_blocks: u64,
    pub node_blocks: u64,
    pub layout_writes: u64,
    #[serde(flatten)]
    pub whole: Interval,
    /// Blocks that an application write moved or waited for, over all writes.
    pub wait_blocks: Value,
    /// Blocks that checkpoints wrote meanwhile.
    pub wait_checkpoint_blocks: Value,
    pub zone_violations: u64,
    pub quarters: Vec<Interval>,
    pub wall_s: f64,
}

impl Row {
    /// What was asked for.
    pub fn of(e: &Experiment, policy: &str, seed: u64) -> Self {
        let (pages, _) = e.extent();
        Self {
            experiment: e.name.to_owned(),
            policy: policy.to_owned(),
            seed,
            sections: e.zones,
            section_blocks: e.blocks_per_zone,
            reserve: e.reserved,
            overprovision_percent: e.overprovision,
            fill: pages as f64 / e.main_blocks() as f64,
            distribution: e.workload.to_string(),
            fsync_every: e.fsync_every,
            dirty_percent: e.dirty_pages.map_or(e.dirty, |n| n as f64 / pages as f64) * 100.0,
            dirty_pages: e.dirty_limit(),
            file_blocks: pages,
            ..Self::default()
        }
    }

    pub fn of_model(s: &Setting, o: &Outcome, wall_s: f64) -> Result<Self> {
        let last = o.quarters.last().ok_or_else(|| anyhow!("the run has no end"))?;
        let row = Self {
            source: "model",
            r#loop: order_name(s.how),
            count_dirty_data: s.counts_dirty_data(),
            lifetime: s.separates(),
            node_blocks: o.nodes,
            layout_writes: o.layout.total(),
            whole: Interval::of(last),
            zone_violations: last.zone_violations,
            quarters: o.quarters.iter().map(Interval::of).collect(),
            wall_s,
            ..Self::of(&s.experiment, &s.policy, s.seed)
        };
        Ok(row.with_waits(&o.waits))
    }

    pub fn with_waits(mut self, waits: &WriteWaits) -> Self {
        let quantiles = |w: &Waits| {
            let [p50, p99, p999, p9999] = [0.5, 0.99, 0.999, 0.9999].map(|q| w.quantile(q));
            json!({ "p50": p50, "p99": p99, "p999": p999, "p9999": p9999, "max": w.max() })
        };
        self.wait_blocks = quantiles(&waits.moves);
        self.wait_checkpoint_blocks = quantiles(&waits.checkpoints);
        self
    }
}

/// Counts of an interval of the run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Interval {
    pub app_writes: u64,
    pub waf: f64,
    pub waf_by_class: Map<String, Value>,
    pub absorbed: f64,
    pub dev_writes: Value,
    pub gc_rounds: u64,
    pub gc_moved: Value,
    pub gc_sections: Value,
    pub gc_segments: Value,
    pub checkpoints: u64,
    pub zone_resets: u64,
    pub stall_blocks: Value,
}

impl Interval {
    pub fn of(c: &Counters) -> Self {
        let app = c.app_writes.max(1) as f64;
        let share = |n: u64| n as f64 / app;
        let by_class = Kind::ALL.iter().map(|&k| (k.name().to_owned(), json!(share(c.of(k))))).collect();
        let seq: u64 = Kind::ALL.into_iter().filter(|k| k.is_main()).map(|k| c.of(k)).sum();
        Self {
            app_writes: c.app_writes,
            waf: share(c.total()),
            waf_by_class: by_class,
            absorbed: share(c.coalesced + c.written_by_cleaning),
            dev_writes: json!({ "sequential": seq, "conventional": c.total() - seq }),
            gc_rounds: c.rounds,
            gc_moved: json!({ "data": c.of(Kind::MovedData), "node": c.of(Kind::MovedNodes) }),
            gc_sections: json!({ "data": c.sections[0], "node": c.sections[1] }),
            gc_segments: json!({ "data": c.segments[0], "node": c.segments[1] }),
            checkpoints: c.checkpoints,
            zone_resets: c.zone_resets,
            stall_blocks: json!({ "p50": c.stall_quantile(0.5), "p99": c.stall_quantile(0.99), "max": c.longest_stall }),
        }
    }
}
