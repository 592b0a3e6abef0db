//! Bugs planted in the engine: a crash test that does not find them tests nothing.
use super::case::{Case, Kind};
use super::one;
use super::plan::{Depth, Plan, RowPlan};
use super::report::{Finding, Hunt, Totals};
use crate::crash;
use segno_engine::planted::{self, Bug};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longest hunt for one bug.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much of a workload is tried.
const DEPTH: Depth = Depth { states: Some(60), recovery: 50, within: Some(60), work: 3, points: 20 };
/// The same of the scenes that show most. What is behind a hole in the chain shows only when the volume is worked on.
const TELLING: Depth = Depth { states: Some(300), recovery: 50, within: Some(60), work: 1, points: 0 };

/// Hunts every bug, as many at a time as there are threads. `watch` gets each result.
pub(super) fn hunt_all(plan: &Plan, threads: usize, watch: &mut (dyn FnMut(&Hunt) + Send)) -> Vec<Hunt> {
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Vec::new(), watch));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&bug) = Bug::ALL.get(index) else { return };
            // What is left, by those that are left.
            let left = plan.hunt().saturating_sub(begun.elapsed())
                / (Bug::ALL.len() - index).div_ceil(threads) as u32;
            let hunt = hunt(bug, plan.seed, left.min(PATIENCE));
            let Ok(mut done) = done.lock() else { return };
            (done.1)(&hunt);
            done.0.push((bug, hunt));
        }
    };
    thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let mut found = done.into_inner().map(|(found, _)| found).unwrap_or_default();
    let place = |bug: &Bug| Bug::ALL.iter().position(|b| b == bug);
    found.sort_by_key(|(bug, _)| place(bug));
    found.into_iter().map(|(_, hunt)| hunt).collect()
}

/// Runs the ordinary cases until one of them fails.
pub fn hunt(bug: Bug, seed: u64, patience: Duration) -> Hunt {
    let begun = Instant::now();
    planted::plant(Some(bug));
    let mut totals = Totals::default();
    let found = first_finding(bug, seed, begun + patience, &mut totals);
    planted::plant(None);
    let (by, what) = found.as_ref().map_or_else(Default::default, |f| (f.case.clone(), f.what.clone()));
    Hunt {
        bug: format!("{bug:?}"),
        found: found.is_some(),
        by,
        what,
        states: totals.crash_states + totals.recovery_states + totals.fault_points,
        seconds: begun.elapsed().as_secs_f64(),
    }
}

/// Which of the telling scenes, and the races behind them, a hunt begins with.
const fn first_of(bug: Bug) -> usize {
    match bug {
        Bug::ReusedBlock | Bug::SkippedDataFlush => 1,
        Bug::EagerSize => 3,
        Bug::ForgottenOrphan => 4,
        Bug::UncheckedData => 5,
        Bug::UnjournaledParent => 6,
        Bug::SameLengthXattr => 7,
        Bug::UnrecordedRmdir => 8,
        Bug::UnrecordedRename => 9,
        Bug::EarlyPublish => 10,
        Bug::BlurredBoundary => 11,
        Bug::LateWritesFlushed => 24,
        _ => 0,
    }
}

fn first_finding(bug: Bug, seed: u64, until: Instant, totals: &mut Totals) -> Option<Box<Finding>> {
    // Each with the cases that it has a turn.
    let kinds = [
        (Kind::Single, crash::singles(), 30),
        (Kind::Race, crash::races(), 40),
        (Kind::Scene, crash::scenes(), 30),
        (Kind::Full, crash::fulls(), 4),
        (Kind::Pair, u64::MAX, 5),
        (Kind::Fault, u64::MAX, 2),
    ];
    let of = |kind| move |number| (Case { kind, number, setup: None }, TELLING);
    let scenes = crash::telling_scenes().unwrap_or_default().into_iter().map(of(Kind::Scene));
    let races = crash::telling_races().unwrap_or_default().into_iter().map(of(Kind::Race));
    let mut telling: Vec<_> = scenes.chain(races).collect();
    let first = first_of(bug).min(telling.len());
    telling.rotate_left(first);
    let rows = kinds.map(|(kind, cases, n)| (RowPlan { kind, cases, depth: DEPTH, share: 0 }, n));
    let drawn = (0..).flat_map(|turn| {
        rows.iter().flat_map(move |&(row, n)| {
            let cases = (turn * n..(turn + 1) * n).filter(move |&i| i < row.cases);
            cases.map(move |i| (row.case(seed, i), row.depth))
        })
    });
    for (case, depth) in telling.into_iter().chain(drawn) {
        if one::is_over(Some(until)) {
            return None;
        }
        if let Err(finding) = one::run(case, depth, Some(until), totals) {
            return Some(finding);
        }
    }
    None
}
