//! Counts and findings.
use super::case::Kind;
use crate::mounted::Mounted;
use segno_format::{Features, SegNo};
use segno_testkit::{CrashLog, Event};
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::AddAssign;

/// The largest that was tried, measured on the volumes that were recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// Inodes of a recovered volume.
    pub inodes: u64,
    /// Records of the journal that were replayed.
    pub records: u64,
    /// Segments of the main area that a recovery wrote to.
    pub segments: u64,
    /// Devices of a volume and its journal, which are flushed separately.
    pub devices: u64,
    /// Threads that changed the volume before the cut.
    pub threads: u64,
    /// Cuts one after the other: in operation, in recovery, in the recovery after that.
    pub cuts: u64,
    /// Features of all volumes.
    #[serde(serialize_with = "names")]
    pub features: Features,
}

fn names<S: Serializer>(features: &Features, to: S) -> Result<S::Ok, S::Error> {
    features.names().serialize(to)
}

impl Reach {
    /// Of one recovery: its writes, and the number of inodes at that time.
    #[must_use]
    pub fn of_recovery(engine: &Mounted, log: &CrashLog, inodes: usize) -> Self {
        let written = log.events().iter().filter_map(|event| match event {
            Event::Write { addr, blocks, .. } => Some(*addr..addr.saturating_add(blocks.len() as u64)),
            _ => None,
        });
        let segments: BTreeSet<SegNo> = written.flatten().filter_map(|at| engine.segment_of(at)).collect();
        let (inodes, segments) = (inodes as u64, segments.len() as u64);
        Self { inodes, segments, threads: 1, features: engine.features(), ..Self::default() }
    }
}

impl AddAssign for Reach {
    fn add_assign(&mut self, other: Self) {
        self.inodes = self.inodes.max(other.inodes);
        self.records = self.records.max(other.records);
        self.segments = self.segments.max(other.segments);
        self.devices = self.devices.max(other.devices);
        self.threads = self.threads.max(other.threads);
        self.cuts = self.cuts.max(other.cuts);
        self.features = self.features.union(other.features);
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inodes, records, segments, devices, threads, cuts, features } = self;
        write!(
            f,
            "at most {inodes} inodes, {records} records of the journal, {segments} segments written by a recovery, "
        )?;
        write!(
            f,
            "{devices} devices, {threads} threads, {cuts} cuts; features: {}",
            features.names().join(", ")
        )
    }
}

/// Counts of everything that was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub model_sequences: u64,
    pub model_ops: u64,
    pub crash_workloads: u64,
    pub crash_states: u64,
    /// States of power cuts inside recovery, and inside the recovery from those.
    pub recovery_states: u64,
    /// Recovered volumes that were written to, cut again, and emptied.
    pub worked_on: u64,
    pub fault_points: u64,
    pub damaged_images: u64,
    pub violations: u64,
    /// The largest that was recovered; zeros in rows without power cuts.
    pub reach: Reach,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.model_sequences += other.model_sequences;
        self.model_ops += other.model_ops;
        self.crash_workloads += other.crash_workloads;
        self.crash_states += other.crash_states;
        self.recovery_states += other.recovery_states;
        self.worked_on += other.worked_on;
        self.fault_points += other.fault_points;
        self.damaged_images += other.damaged_images;
        self.violations += other.violations;
        self.reach += other.reach;
    }
}

/// A case that failed.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub case: String,
    pub setup: String,
    pub what: String,
    /// The cut or fault.
    pub state: String,
    /// The shortest sequence found that still fails.
    pub ops: Vec<String>,
    /// The command that tries this case again.
    pub again: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on setup {}: {}", self.case, self.setup, self.what)?;
        if !self.state.is_empty() {
            writeln!(f, "  {}", self.state)?;
        }
        for (number, op) in (1..).zip(&self.ops) {
            writeln!(f, "  {number:3} {op}")?;
        }
        writeln!(f, "  again: {}", self.again)
    }
}

/// All cases of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub kind: Kind,
    pub title: &'static str,
    pub seed: u64,
    /// Cases that were to be tried, and that were: fewer if the time was up.
    pub planned: u64,
    pub cases: u64,
    #[serde(flatten)]
    pub totals: Totals,
    pub seconds: f64,
    /// The command that repeats this row.
    pub again: String,
}

/// Whether the cases found a mutant.
#[derive(Clone, Debug, Serialize)]
pub struct Hunt {
    pub mutant: String,
    pub found: bool,
    /// The case that found it, what it said, and the states tried until then.
    pub by: String,
    pub what: String,
    pub states: u64,
    pub seconds: f64,
}

/// Report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub seed: u64,
    pub quick: bool,
    pub threads: usize,
    pub seconds: f64,
    /// Crash states, those inside recovery among them, over the time that power cuts took.
    pub states_per_second: f64,
    #[serde(flatten)]
    pub totals: Totals,
    pub rows: Vec<Row>,
    pub findings: Vec<Finding>,
}
