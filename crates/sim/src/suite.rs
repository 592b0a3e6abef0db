//! All of it: which cases, how many, what was found.
use crate::op::{Op, shrink};
use crate::rng::mix;
use crate::{compare, crash, fault};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// How often a shrinking sequence is tried.
const SHRINK_TRIES: usize = 2000;

/// What a case does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A sequence on the engine and on the model.
    Model,
    /// Power cuts of one operation and a persistence point.
    Single,
    /// Power cuts of two.
    Pair,
    /// Power cuts of a drawn sequence.
    Drawn,
    /// Failing device calls under a drawn sequence.
    Fault,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Model, "model"),
    (Kind::Single, "single"),
    (Kind::Pair, "pair"),
    (Kind::Drawn, "drawn"),
    (Kind::Fault, "fault"),
];

/// One case. Its text form repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub kind: Kind,
    pub number: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(k, _)| *k == self.kind).map_or("", |(_, n)| n);
        write!(f, "{name}:{}", self.number)
    }
}

impl FromStr for Case {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let (name, number) = s.split_once(':').ok_or("a case is KIND:NUMBER")?;
        let kind =
            KINDS.iter().find(|(_, n)| *n == name).ok_or("kinds are model, single, pair, drawn, fault")?.0;
        Ok(Self { kind, number: number.parse().map_err(|e| format!("{e}"))? })
    }
}

/// What was tried and found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub model_sequences: u64,
    pub model_ops: u64,
    pub crash_workloads: u64,
    pub crash_states: u64,
    pub recovery_states: u64,
    /// Recovered volumes that were worked on and emptied.
    pub worked_on: u64,
    pub fault_points: u64,
    pub violations: u64,
}

/// A case that failed.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub case: String,
    pub setup: String,
    pub what: String,
    /// Which cut or fault it took.
    pub state: String,
    /// The shortest sequence found that still fails.
    pub ops: Vec<String>,
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
        Ok(())
    }
}

/// How many cases of each kind, and how thorough each is.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub model: u64,
    pub singles: u64,
    pub pairs: u64,
    pub drawn: u64,
    pub faults: u64,
    /// States of a crash workload.
    pub states: usize,
    /// Faults of a workload.
    pub points: u64,
    /// In one of so many crash states recovery is cut too.
    pub recovery: u64,
}

impl Plan {
    /// A minute or two.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            seed,
            model: 2000,
            singles: 300,
            pairs: 500,
            drawn: 500,
            faults: 40,
            states: 40,
            points: 20,
            recovery: 400,
        }
    }

    /// Every single operation with every persistence point, and more of everything else.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        let singles = crash::singles();
        Self {
            seed,
            model: 20_000,
            singles,
            pairs: 1000,
            drawn: 1000,
            faults: 300,
            states: 200,
            points: 40,
            recovery: 100,
        }
    }

    /// The cases, those of different kinds in turn.
    pub fn cases(&self) -> impl Iterator<Item = Case> {
        let seed = self.seed;
        let all = [
            (Kind::Model, self.model),
            (Kind::Single, self.singles),
            (Kind::Pair, self.pairs),
            (Kind::Drawn, self.drawn),
            (Kind::Fault, self.faults),
        ];
        all.into_iter().flat_map(move |(kind, count)| {
            let stride = crash::singles() / count.max(1);
            let number = move |i: u64| match kind {
                // In order, so that a full run has each once.
                Kind::Single => (seed + i) * stride.max(1),
                _ => mix(mix(seed).wrapping_add(i)) >> 16,
            };
            (0..count).map(move |i| Case { kind, number: number(i) })
        })
    }

    /// Runs one case.
    pub fn run(&self, case: Case, totals: &mut Totals) -> Result<(), Box<Finding>> {
        let broken = |what: String| {
            Box::new(Finding {
                case: case.to_string(),
                setup: String::new(),
                what,
                state: String::new(),
                ops: Vec::new(),
            })
        };
        let result = match case.kind {
            Kind::Model => model(case, totals),
            Kind::Single => {
                crash::single(case.number).map_err(broken).and_then(|w| self.cuts(case, &w, totals))
            }
            Kind::Pair => crash::pair(case.number).map_err(broken).and_then(|w| self.cuts(case, &w, totals)),
            Kind::Drawn => {
                crash::drawn(case.number).map_err(broken).and_then(|w| self.cuts(case, &w, totals))
            }
            Kind::Fault => {
                crash::drawn(case.number).map_err(broken).and_then(|w| self.faults(case, &w, totals))
            }
        };
        totals.violations += u64::from(result.is_err());
        result
    }

    fn cuts(&self, case: Case, workload: &crash::Workload, totals: &mut Totals) -> Result<(), Box<Finding>> {
        let effort = crash::Effort {
            seed: case.number,
            states: Some(self.states),
            subsets: 40,
            recovery: self.recovery,
            work: 20,
        };
        let mut counts = crash::Counts::default();
        let result = crash::run_and_shrink(workload, effort, &mut counts);
        totals.crash_workloads += counts.workloads;
        totals.crash_states += counts.crash_states;
        totals.recovery_states += counts.recovery_states;
        totals.worked_on += counts.worked_on;
        result.map_err(|(v, ops)| finding(case, workload.setup.name, v, &ops))
    }

    fn faults(
        &self,
        case: Case,
        workload: &crash::Workload,
        totals: &mut Totals,
    ) -> Result<(), Box<Finding>> {
        let effort = fault::Effort { seed: case.number, points: self.points };
        let mut counts = fault::Counts::default();
        let result = fault::run(workload, effort, &mut counts);
        totals.fault_points += counts.fault_points;
        result.map_err(|v| finding(case, workload.setup.name, v, &workload.ops))
    }
}

fn model(case: Case, totals: &mut Totals) -> Result<(), Box<Finding>> {
    let failed = |what, state: Option<usize>, setup, ops: &[Op]| {
        let state = state.map_or_else(String::new, |s| format!("in step {}", s + 1));
        finding(case, setup, crash::Violation { state, what }, ops)
    };
    let drawn = compare::Case::draw(case.number).map_err(|what| failed(what, None, "", &[]))?;
    totals.model_sequences += 1;
    totals.model_ops += drawn.ops.len() as u64;
    let Err(first) = compare::run(&drawn.setup, &drawn.ops) else { return Ok(()) };
    let mut last = first;
    let ops = shrink(&drawn.ops, SHRINK_TRIES, |ops| match compare::run(&drawn.setup, ops) {
        Err(e) => {
            last = e;
            true
        }
        Ok(()) => false,
    });
    Err(failed(last.what, last.step, drawn.setup.name, &ops))
}

fn finding(case: Case, setup: &str, violation: crash::Violation, ops: &[Op]) -> Box<Finding> {
    Box::new(Finding {
        case: case.to_string(),
        setup: setup.into(),
        what: violation.what,
        state: violation.state,
        ops: ops.iter().map(ToString::to_string).collect(),
    })
}
