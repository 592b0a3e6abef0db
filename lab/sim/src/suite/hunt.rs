//! Searches for a bug that this build of the engine has: cases that do not find it are too weak.
use super::case::{Case, Kind};
use super::one;
use super::plan::{Depth, RowPlan};
use super::report::{Finding, Hunt, Totals};
use crate::crash;
use std::time::{Duration, Instant};

/// Depth of a workload.
const DEPTH: Depth =
    Depth { states: Some(60), recovery: 50, within: Some(60), work: 3, points: 20, shrink: false };
/// Depth of the most revealing scenes. Blocks after a gap in the chain matter only when the volume is written
/// to again.
const TELLING: Depth =
    Depth { states: Some(300), recovery: 50, within: Some(60), work: 1, points: 0, shrink: false };

/// How a hunt proceeds.
#[derive(Clone, Copy, Debug)]
pub struct HuntPlan {
    /// The case to begin with.
    pub start: Option<Case>,
    /// Seed of the drawn cases.
    pub seed: u64,
    /// No case begins after this number of states, sequences and faults.
    pub states: u64,
    /// Nor after this time.
    pub patience: Duration,
}

/// Runs ordinary cases until one of them fails.
#[must_use]
pub fn hunt(mutant: &str, plan: &HuntPlan) -> Hunt {
    let begun = Instant::now();
    let mut totals = Totals::default();
    let found = first_finding(plan, begun + plan.patience, &mut totals);
    let (by, what) = found.as_ref().map_or_else(Default::default, |f| (f.case.clone(), f.what.clone()));
    Hunt {
        mutant: mutant.to_owned(),
        found: found.is_some(),
        by,
        what,
        states: tried(&totals),
        seconds: begun.elapsed().as_secs_f64(),
    }
}

/// How often a case is run before others: a busy machine may stop one of two threads where the other should have stopped.
fn tries(case: Case) -> usize {
    if case.kind == Kind::Race { 3 } else { 1 }
}

fn tried(totals: &Totals) -> u64 {
    totals.crash_states + totals.recovery_states + totals.fault_points + totals.model_sequences
}

fn first_finding(plan: &HuntPlan, until: Instant, totals: &mut Totals) -> Option<Box<Finding>> {
    // Each with its number of cases in a turn.
    let kinds = [
        (Kind::Single, crash::singles(), 30),
        (Kind::Race, crash::races(), 40),
        (Kind::Scene, crash::scenes(), 30),
        (Kind::Full, crash::fulls(), 4),
        (Kind::Pair, u64::MAX, 5),
        (Kind::Fault, u64::MAX, 2),
        (Kind::Model, u64::MAX, 30),
    ];
    let of = |kind| move |number| (Case { kind, number, setup: None }, TELLING);
    let scenes = crash::telling_scenes().unwrap_or_default().into_iter().map(of(Kind::Scene));
    let races = crash::telling_races().unwrap_or_default().into_iter().map(of(Kind::Race));
    let start = plan.start.into_iter().flat_map(|case| std::iter::repeat_n((case, TELLING), tries(case)));
    let telling = start.chain(scenes).chain(races);
    let rows = kinds.map(|(kind, cases, n)| (RowPlan { kind, cases, depth: DEPTH, share: 0 }, n));
    let drawn = (0..).flat_map(|turn| {
        rows.iter().flat_map(move |&(row, n)| {
            let cases = (turn * n..(turn + 1) * n).filter(move |&i| i < row.cases);
            cases.map(move |i| (row.case(plan.seed, i), row.depth))
        })
    });
    for (case, depth) in telling.chain(drawn) {
        if one::is_over(Some(until)) || tried(totals) >= plan.states {
            return None;
        }
        if let Err(finding) = one::run(case, depth, Some(until), totals) {
            return Some(finding);
        }
    }
    None
}
