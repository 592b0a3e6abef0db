//! Runs one case.
use super::case::{Case, Kind};
use super::plan::Depth;
use super::report::{Finding, Totals};
use crate::op::{Op, shrink};
use crate::{compare, crash, fault, guarded, hostile, recovery};
use segno_testkit::caught;
use std::time::Instant;

/// Maximum number of runs to shrink a sequence.
const SHRINK_TRIES: usize = 2000;
/// Images of a case.
const IMAGES: u64 = 20;

/// Runs a case until it is done or the time is up, and adds what was tried.
pub fn run(
    case: Case,
    depth: Depth,
    until: Option<Instant>,
    totals: &mut Totals,
) -> Result<(), Box<Finding>> {
    let result = match case.kind {
        Kind::Model => model(case, until, totals),
        Kind::Single => cuts(case, crash::single(case.number, case.setup), depth, until, totals),
        Kind::Scene => cuts(case, crash::scene(case.number, case.setup), depth, until, totals),
        Kind::Full => cuts(case, crash::full(case.number), depth, until, totals),
        Kind::Race => cuts(case, crash::race(case.number, case.setup), depth, until, totals),
        Kind::Pair => cuts(case, crash::pair(case.number, case.setup), depth, until, totals),
        Kind::Drawn => cuts(case, crash::drawn(case.number, case.setup), depth, until, totals),
        Kind::Fault => faults(case, depth, until, totals),
        Kind::Damage => damage(case, totals),
        Kind::Guarded => guarded(case, totals),
        Kind::Recovery => recoveries(case, depth, until, totals),
    };
    totals.violations += u64::from(result.is_err());
    result
}

fn cuts(
    case: Case,
    workload: Result<crash::Workload, String>,
    depth: Depth,
    until: Option<Instant>,
    totals: &mut Totals,
) -> Result<(), Box<Finding>> {
    let workload = workload.map_err(|what| finding(case, "", outside(what), &[]))?;
    let effort = crash::Effort {
        seed: case.number,
        states: depth.states,
        subsets: 40,
        recovery: depth.recovery,
        within: depth.within,
        work: depth.work,
        until,
    };
    let mut counts = crash::Counts::default();
    let result = if depth.shrink {
        crash::run_and_shrink(&workload, effort, &mut counts)
    } else {
        crash::run(&workload, effort, &mut counts).map_err(|v| (v, workload.ops.clone()))
    };
    add(totals, counts);
    result.map_err(|(v, ops)| finding(case, workload.setup.name, v, &ops))
}

fn add(totals: &mut Totals, counts: crash::Counts) {
    totals.crash_workloads += counts.workloads;
    totals.crash_states += counts.crash_states;
    totals.recovery_states += counts.recovery_states;
    totals.worked_on += counts.worked_on;
    totals.reach += counts.reach;
}

/// One large volume; the case's number chooses its kind and size.
fn recoveries(
    case: Case,
    depth: Depth,
    until: Option<Instant>,
    totals: &mut Totals,
) -> Result<(), Box<Finding>> {
    let effort = recovery::Effort { seed: case.number, states: depth.states, pairs: depth.within, until };
    let mut counts = crash::Counts::default();
    let result = recovery::run(case.number, effort, &mut counts);
    add(totals, counts);
    result.map_err(|v| finding(case, "", v, &[]))
}

fn faults(case: Case, depth: Depth, until: Option<Instant>, totals: &mut Totals) -> Result<(), Box<Finding>> {
    let workload =
        crash::drawn(case.number, case.setup).map_err(|what| finding(case, "", outside(what), &[]))?;
    let effort = fault::Effort { seed: case.number, points: depth.points, until };
    let mut counts = fault::Counts::default();
    let result = fault::run_and_shrink(&workload, effort, &mut counts);
    totals.fault_points += counts.fault_points;
    result.map_err(|(v, ops)| finding(case, workload.setup.name, v, &ops))
}

fn model(case: Case, until: Option<Instant>, totals: &mut Totals) -> Result<(), Box<Finding>> {
    let drawn =
        compare::Case::draw(case.number, case.setup).map_err(|what| finding(case, "", outside(what), &[]))?;
    totals.model_sequences += 1;
    totals.model_ops += drawn.ops.len() as u64;
    let Err(first) = compare::run(&drawn.setup, &drawn.ops) else { return Ok(()) };
    let mut last = first;
    let ops = shrink(&drawn.ops, SHRINK_TRIES, |ops| match compare::run(&drawn.setup, ops) {
        Err(e) if !is_over(until) => {
            last = e;
            true
        }
        _ => false,
    });
    let state = last.step.map_or_else(String::new, |s| format!("in step {}", s + 1));
    Err(finding(case, drawn.setup.name, crash::Violation { state, what: last.what }, &ops))
}

/// Several damaged volumes; the case's number is their seed.
fn damage(case: Case, totals: &mut Totals) -> Result<(), Box<Finding>> {
    let (counts, findings) =
        hostile::run(case.number, 0..IMAGES).map_err(|what| finding(case, "", outside(what), &[]))?;
    totals.damaged_images += counts.images;
    let Some(first) = findings.into_iter().next() else { return Ok(()) };
    let state = format!("image {} of seed {}: {}", first.number, case.number, first.image);
    Err(finding(case, "", crash::Violation { state, what: first.what }, &[]))
}

/// One volume of a single caller with cuts, and one under all threads; the case's number is the seed of both.
fn guarded(case: Case, totals: &mut Totals) -> Result<(), Box<Finding>> {
    let (drawn, busy) = (guarded::Case::draw(case.number), guarded::busy::Busy::draw(case.number));
    totals.crash_workloads += 2;
    let found = |state: String, what| finding(case, "", crash::Violation { state, what }, &[]);
    let done = caught(|| guarded::run(&drawn)).map_err(|what| found(format!("{drawn:?}"), what))?;
    totals.crash_states += done.cuts;
    caught(|| guarded::busy::run(&busy)).map_err(|what| found(format!("{busy:?}"), what)).map(drop)
}

pub fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|u| Instant::now() > u)
}

fn outside(what: String) -> crash::Violation {
    crash::Violation { state: String::new(), what }
}

fn finding(case: Case, setup: &str, violation: crash::Violation, ops: &[Op]) -> Box<Finding> {
    Box::new(Finding {
        case: case.to_string(),
        setup: setup.into(),
        what: violation.what,
        state: violation.state,
        ops: ops.iter().map(ToString::to_string).collect(),
        again: format!("segno crashtest --case {case}"),
    })
}
