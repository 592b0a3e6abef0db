//! Figures of one run, and of several together.
use super::mode::Mode;
use crate::Recorded;
use crate::sample::Sample;
use segno_engine::Volume;
use segno_engine::lab::Probe;
use segno_engine::stat::SAMPLED;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

const US: f64 = 1000.0;

/// One run.
#[derive(Clone, Debug)]
pub struct Once {
    pub workload: String,
    pub seconds: f64,
    pub ops: u64,
    pub latency: Recorded,
    pub applying: Recorded,
    pub blocked: Recorded,
    pub bytes_written: u64,
    pub flushes: u64,
    pub log_bytes: Option<u64>,
    pub checkpoints: u64,
    pub commits: u64,
    pub phases: Phases,
}

/// Microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyUs {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// Time for which checkpoints or applies blocked operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BlockedUs {
    pub count: u64,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
    /// Total.
    pub total: f64,
}

/// Time of the phases of journaling in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phases {
    /// Recording changes; sampled.
    pub append: u64,
    /// Joining epochs; sampled.
    pub join: u64,
    pub drain: u64,
    /// Phases of a commit: collect records, flush data, write group, flush group.
    pub commit: [u64; 4],
    pub apply: u64,
}

pub const COMMIT_STEPS: [&str; 4] = ["take", "data_flush", "write", "flush"];

/// A row of the report.
#[derive(Clone, Debug, Serialize)]
pub struct JournalRow {
    pub workload: String,
    pub mode: Mode,
    pub threads: usize,
    pub rounds: usize,
    pub seconds: f64,
    pub ops: f64,
    pub ops_per_s: f64,
    pub ops_spread_percent: f64,
    pub latency_us: LatencyUs,
    /// All of them, in nanoseconds.
    #[serde(skip)]
    pub latency: Recorded,
    /// Of operations concurrent with a checkpoint or apply.
    pub applying_us: Option<LatencyUs>,
    pub blocked_us: BlockedUs,
    pub checkpoints: f64,
    pub commits: f64,
    pub bytes_written: f64,
    pub flushes: f64,
    pub log_bytes_per_op: Option<f64>,
    /// Milliseconds of each phase of journaling; without a journal of apply alone, which is a checkpoint.
    pub phases_ms: Option<BTreeMap<&'static str, f64>>,
}

/// Fewer checkpoints or applies say nothing of their times.
pub const ENOUGH: f64 = 5.0;

impl JournalRow {
    /// Whether the row is long enough for a comparison of checkpoints and applies.
    pub fn is_long_enough(&self) -> bool {
        self.checkpoints >= ENOUGH
    }

    /// Milliseconds of commits and of checkpoints or applies of a run, from the beginning to the end of each.
    pub fn journaling_ms(&self) -> Option<(f64, f64)> {
        let phases = self.phases_ms.as_ref()?;
        let get = |name: &str| phases.get(name).copied().unwrap_or(0.0);
        Some((get("drain") + get("commit"), get("apply")))
    }
}

impl LatencyUs {
    pub fn of(r: &Recorded) -> Self {
        let us = |q: f64| r.quantile(q) as f64 / US;
        Self {
            mean: r.mean() / US,
            p50: us(0.5),
            p90: us(0.9),
            p99: us(0.99),
            p999: us(0.999),
            max: r.max() as f64 / US,
        }
    }
}

impl BlockedUs {
    pub fn of(r: &Recorded) -> Self {
        let us = |q: f64| r.quantile(q) as f64 / US;
        Self {
            count: r.count(),
            p50: us(0.5),
            p99: us(0.99),
            max: r.max() as f64 / US,
            total: r.sum() as f64 / US,
        }
    }
}

impl Phases {
    pub fn of(volume: &Volume) -> Self {
        let (join, note) = Probe(volume).journal_times();
        let stats = volume.stats();
        let j = &stats.journal;
        Self {
            append: note.sum() * SAMPLED,
            join: join.sum() * SAMPLED,
            drain: j.drain.recorded().sum(),
            commit: [&j.take, &j.data_flush, &j.append, &j.flush].map(|h| h.recorded().sum()),
            apply: stats.checkpoint_ns.load(Ordering::Relaxed),
        }
    }

    pub fn since(&self, before: &Self) -> Self {
        let mut commit = self.commit;
        commit.iter_mut().zip(before.commit).for_each(|(now, then)| *now -= then);
        Self {
            append: self.append - before.append,
            join: self.join - before.join,
            drain: self.drain - before.drain,
            commit,
            apply: self.apply - before.apply,
        }
    }

    fn milliseconds(all: &[Self]) -> BTreeMap<&'static str, f64> {
        let mean = |f: &dyn Fn(&Self) -> u64| {
            all.iter().map(|p| f(p) as f64).sum::<f64>() / all.len().max(1) as f64 / 1e6
        };
        let mut out = BTreeMap::from([
            ("append", mean(&|p| p.append)),
            ("join", mean(&|p| p.join)),
            ("drain", mean(&|p| p.drain)),
            ("commit", mean(&|p| p.commit.iter().sum())),
            ("apply", mean(&|p| p.apply)),
        ]);
        for (i, name) in COMMIT_STEPS.into_iter().enumerate() {
            out.insert(name, mean(&|p| p.commit.get(i).copied().unwrap_or(0)));
        }
        out
    }
}

/// Several runs of one part: medians, and quantiles over all operations.
pub fn combine(mode: Mode, threads: usize, runs: &[&Once]) -> JournalRow {
    let median = |f: &dyn Fn(&Once) -> f64| Sample::of(&runs.iter().map(|o| f(o)).collect::<Vec<_>>()).median;
    let all = |f: &dyn Fn(&Once) -> &Recorded| runs.iter().fold(Recorded::default(), |all, o| all.and(f(o)));
    let ops = Sample::of(&runs.iter().map(|o| o.ops as f64 / o.seconds).collect::<Vec<_>>());
    let latency = all(&|o| &o.latency);
    let (applying, logged) = (all(&|o| &o.applying), mode == Mode::Journal);
    let phases: Vec<Phases> = runs.iter().map(|o| o.phases).collect();
    JournalRow {
        workload: runs.first().map_or(String::new(), |o| o.workload.clone()),
        mode,
        threads,
        rounds: runs.len(),
        seconds: median(&|o| o.seconds),
        ops: median(&|o| o.ops as f64),
        ops_per_s: ops.median,
        ops_spread_percent: ops.spread_percent(),
        latency_us: LatencyUs::of(&latency),
        latency,
        applying_us: (applying.count() > 0).then(|| LatencyUs::of(&applying)),
        blocked_us: BlockedUs::of(&all(&|o| &o.blocked)),
        checkpoints: median(&|o| o.checkpoints as f64),
        commits: median(&|o| o.commits as f64),
        bytes_written: median(&|o| o.bytes_written as f64),
        flushes: median(&|o| o.flushes as f64),
        log_bytes_per_op: logged
            .then(|| median(&|o| o.log_bytes.map_or(0.0, |b| b as f64 / o.ops.max(1) as f64))),
        phases_ms: Some(Phases::milliseconds(&phases)),
    }
}

/// A row without workload; its results are in `extra`.
#[derive(Clone, Debug, Serialize)]
pub struct Extra {
    workload: String,
    mode: Mode,
    seconds: f64,
    latency_us: Option<LatencyUs>,
    blocked_us: Option<BlockedUs>,
    bytes_written: Option<f64>,
    flushes: Option<f64>,
    log_bytes_per_op: Option<f64>,
    extra: BTreeMap<&'static str, f64>,
}

impl Extra {
    pub fn new(workload: String, mode: Mode, seconds: f64, extra: &[(&'static str, f64)]) -> Self {
        Self {
            workload,
            mode,
            seconds,
            latency_us: None,
            blocked_us: None,
            bytes_written: None,
            flushes: None,
            log_bytes_per_op: None,
            extra: extra.iter().copied().collect(),
        }
    }
}
