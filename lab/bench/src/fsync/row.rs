//! Figures of one run, and of several together.
use crate::Recorded;
use crate::sample::Sample;
use segno_engine::Volume;
use segno_engine::stat::FsyncStats;
use serde::Serialize;
use std::sync::atomic::Ordering;

/// Average and quantiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub avg: f64,
    pub p50: f64,
    pub p99: f64,
}

/// Averages of an fsync, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PhaseUs {
    pub data: f64,
    /// Including the lookup.
    pub node: f64,
    pub lookup: f64,
    pub flush: f64,
    /// Checkpoints written instead of nodes, averaged over all fsyncs.
    pub checkpoint: f64,
}

/// Figures that only a volume in this process reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inside {
    pub dirty_nodes: f64,
    pub searched: f64,
    pub written: f64,
    pub phases: PhaseUs,
    pub lookup_ns: Spread,
    pub flushes: f64,
    pub checkpoints: f64,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub struct Once {
    pub ops_per_s: f64,
    pub fsyncs_per_s: f64,
    /// Latencies in ns.
    pub fsyncs: Recorded,
    pub inside: Option<Inside>,
}

/// A row of the report.
#[derive(Clone, Debug, Serialize)]
pub struct FsyncRow {
    pub workload: String,
    pub target: String,
    pub mode: Option<&'static str>,
    pub fsync_mode: String,
    pub threads: usize,
    pub rounds: usize,
    pub dirty_nodes: Option<f64>,
    pub searched_per_fsync: Option<f64>,
    pub written_per_fsync: Option<f64>,
    pub fsync_us: Spread,
    /// Of all fsyncs of all rounds, in ns.
    #[serde(skip)]
    pub latency: Recorded,
    pub phase_us: Option<PhaseUs>,
    pub lookup_ns: Option<Spread>,
    pub ops_per_s: f64,
    pub ops_spread_percent: f64,
    pub fsyncs_per_s: f64,
    pub flushes_per_fsync: Option<f64>,
    pub checkpoints: Option<f64>,
}

impl Once {
    pub fn fsync_us(&self) -> Spread {
        Spread::of(&self.fsyncs, 1000.0)
    }
}

impl Spread {
    pub fn of(r: &Recorded, unit: f64) -> Self {
        Self { avg: r.mean() / unit, p50: r.quantile(0.5) as f64 / unit, p99: r.quantile(0.99) as f64 / unit }
    }
}

/// A snapshot of a volume's counters.
pub struct Counters {
    searched: u64,
    written: u64,
    flushes: u64,
    checkpoints: u64,
    dirty_nodes: u64,
    phases: [Recorded; 5],
    fsyncs: u64,
}

impl Counters {
    pub fn of(v: &Volume) -> Self {
        let FsyncStats { data, lookup, node, flush, checkpoint, searched, written, .. } = &v.stats().fsync;
        let report = v.report();
        let get = |name: &str| report.iter().find(|(n, _)| *n == name).map_or(0, |(_, v)| *v);
        Self {
            searched: searched.load(Ordering::Relaxed),
            written: written.load(Ordering::Relaxed),
            flushes: get("flushes"),
            checkpoints: get("checkpoints"),
            dirty_nodes: get("dirty_nodes"),
            phases: [data, lookup, node, flush, checkpoint].map(|h| h.recorded()),
            fsyncs: get("fsyncs"),
        }
    }

    /// The difference to `before`, for each fsync.
    pub fn since(&self, before: &Self) -> Inside {
        let n = self.fsyncs.saturating_sub(before.fsyncs).max(1) as f64;
        let each = |now: u64, then: u64| now.saturating_sub(then) as f64 / n;
        let between = |i: usize| match (self.phases.get(i), before.phases.get(i)) {
            (Some(now), Some(then)) => now.since(then),
            _ => Recorded::default(),
        };
        let us = |i: usize| between(i).sum() as f64 / n / 1000.0;
        Inside {
            dirty_nodes: before.dirty_nodes as f64,
            searched: each(self.searched, before.searched),
            written: each(self.written, before.written),
            phases: PhaseUs { data: us(0), lookup: us(1), node: us(2), flush: us(3), checkpoint: us(4) },
            lookup_ns: Spread::of(&between(1), 1.0),
            flushes: each(self.flushes, before.flushes),
            checkpoints: self.checkpoints.saturating_sub(before.checkpoints) as f64,
        }
    }
}

/// The medians of several runs.
pub fn combine(
    workload: &str,
    target: &str,
    mode: Option<&'static str>,
    fsync_mode: &str,
    threads: usize,
    runs: &[Once],
) -> FsyncRow {
    let median = |f: &dyn Fn(&Once) -> f64| Sample::of(&runs.iter().map(f).collect::<Vec<_>>()).median;
    let spread = |f: &dyn Fn(&Once) -> Spread| Spread {
        avg: median(&|o| f(o).avg),
        p50: median(&|o| f(o).p50),
        p99: median(&|o| f(o).p99),
    };
    let inside: Vec<Inside> = runs.iter().filter_map(|o| o.inside).collect();
    let of = |f: &dyn Fn(&Inside) -> f64| Sample::of(&inside.iter().map(f).collect::<Vec<_>>()).median;
    let known = |f: &dyn Fn(&Inside) -> f64| (!inside.is_empty()).then(|| of(f));
    let phases = || PhaseUs {
        data: of(&|i| i.phases.data),
        node: of(&|i| i.phases.node),
        lookup: of(&|i| i.phases.lookup),
        flush: of(&|i| i.phases.flush),
        checkpoint: of(&|i| i.phases.checkpoint),
    };
    let lookup = || Spread {
        avg: of(&|i| i.lookup_ns.avg),
        p50: of(&|i| i.lookup_ns.p50),
        p99: of(&|i| i.lookup_ns.p99),
    };
    let ops = Sample::of(&runs.iter().map(|o| o.ops_per_s).collect::<Vec<_>>());
    FsyncRow {
        workload: workload.to_owned(),
        target: target.to_owned(),
        mode,
        fsync_mode: fsync_mode.to_owned(),
        threads,
        rounds: runs.len(),
        dirty_nodes: known(&|i| i.dirty_nodes),
        searched_per_fsync: known(&|i| i.searched),
        written_per_fsync: known(&|i| i.written),
        fsync_us: spread(&|o| o.fsync_us()),
        latency: runs.iter().fold(Recorded::default(), |all, o| all.and(&o.fsyncs)),
        phase_us: (!inside.is_empty()).then(phases),
        lookup_ns: (!inside.is_empty()).then(lookup),
        ops_per_s: ops.median,
        ops_spread_percent: ops.spread_percent(),
        fsyncs_per_s: median(&|o| o.fsyncs_per_s),
        flushes_per_fsync: known(&|i| i.flushes),
        checkpoints: known(&|i| i.checkpoints),
    }
}
