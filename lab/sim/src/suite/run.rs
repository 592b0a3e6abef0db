//! Runs all cases of a plan on all processors.
use super::case::Case;
use super::one::{self, is_over};
use super::plan::{Depth, Plan, RowPlan};
use super::report::{Finding, Report, Row, Totals};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Findings kept for a row; several show what they have in common.
const FINDINGS_MAX: usize = 20;
/// Interval of progress reports.
const TICK: Duration = Duration::from_millis(200);

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub row: &'static str,
    pub cases: u64,
    pub planned: u64,
    pub totals: Totals,
    pub elapsed: Duration,
}

/// Runs a plan. `watch` is called several times a second.
pub fn run(plan: &Plan, watch: &mut dyn FnMut(Progress)) -> Report {
    let mut run = Run::new(plan, watch);
    let rows: Vec<Row> = plan.rows.iter().map(|row| run.row(row)).collect();
    run.report(rows)
}

/// Tries single cases, thoroughly.
pub fn run_cases(plan: &Plan, cases: &[Case]) -> Report {
    let mut totals = Totals::default();
    let run = |&case: &Case| one::run(case, Depth::ALL, None, &mut totals).err();
    let begun = Instant::now();
    let findings: Vec<Finding> = cases.iter().filter_map(run).map(|f| *f).collect();
    let mut report = Run::new(plan, &mut |_| {}).report(Vec::new());
    report.seconds = begun.elapsed().as_secs_f64();
    report.states_per_second = (totals.crash_states + totals.recovery_states) as f64 / report.seconds;
    (report.totals, report.findings, report.threads) = (totals, findings, 1);
    report
}

struct Run<'a> {
    plan: &'a Plan,
    watch: &'a mut dyn FnMut(Progress),
    begun: Instant,
    threads: usize,
    /// Share of the time that the rows so far had.
    shares: u32,
    totals: Totals,
    findings: Vec<Finding>,
}

/// State shared by the threads of a row.
struct Shared {
    next: AtomicU64,
    done: Mutex<(u64, Totals, Vec<Finding>)>,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, watch: &'a mut dyn FnMut(Progress)) -> Self {
        Self {
            plan,
            watch,
            begun: Instant::now(),
            threads: thread::available_parallelism().map_or(1, usize::from),
            shares: 0,
            totals: Totals::default(),
            findings: Vec::new(),
        }
    }

    fn row(&mut self, row: &RowPlan) -> Row {
        let begun = Instant::now();
        self.shares += row.share;
        // A row has its share of the time plus what earlier rows left.
        let until = self.plan.budget.map(|b| self.begun + b * self.shares / 100);
        let shared = Shared { next: AtomicU64::new(0), done: Mutex::default() };
        thread::scope(|scope| {
            let work = || shared.work(row, self.plan, until);
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                thread::park_timeout(TICK);
                self.tell(row, &shared);
            }
        });
        let (cases, totals, findings) = shared.done.into_inner().unwrap_or_default();
        self.totals += totals;
        self.findings.extend(findings);
        let quick = if self.plan.quick { " --quick" } else { "" };
        let setup = self.plan.setup.map_or_else(String::new, |name| format!(" --setup {name}"));
        let (seed, kind) = (self.plan.seed, row.kind.name());
        Row {
            kind: row.kind,
            title: row.kind.title(),
            seed,
            planned: row.cases,
            cases,
            totals,
            seconds: begun.elapsed().as_secs_f64(),
            again: format!("segno crashtest{quick} --seed {seed}{setup} --only {kind}"),
        }
    }

    fn tell(&mut self, row: &RowPlan, shared: &Shared) {
        let Ok(done) = shared.done.lock() else { return };
        let mut totals = self.totals;
        totals += done.1;
        let progress = Progress {
            row: row.kind.title(),
            cases: done.0,
            planned: row.cases,
            totals,
            elapsed: self.begun.elapsed(),
        };
        drop(done);
        (self.watch)(progress);
    }

    fn report(self, rows: Vec<Row>) -> Report {
        let of_cuts = |r: &&Row| r.totals.crash_workloads > 0;
        let states: u64 =
            rows.iter().filter(of_cuts).map(|r| r.totals.crash_states + r.totals.recovery_states).sum();
        let seconds: f64 = rows.iter().filter(of_cuts).map(|r| r.seconds).sum();
        Report {
            seed: self.plan.seed,
            quick: self.plan.quick,
            threads: self.threads,
            seconds: self.begun.elapsed().as_secs_f64(),
            states_per_second: if seconds > 0.0 { states as f64 / seconds } else { 0.0 },
            totals: self.totals,
            rows,
            findings: self.findings,
        }
    }
}

impl Shared {
    fn work(&self, row: &RowPlan, plan: &Plan, until: Option<Instant>) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= row.cases || is_over(until) {
                return;
            }
            let mut totals = Totals::default();
            let result = one::run(plan.case(row, index), row.depth, until, &mut totals);
            let Ok(mut done) = self.done.lock() else { return };
            done.0 += 1;
            done.1 += totals;
            if let Err(finding) = result
                && done.2.len() < FINDINGS_MAX
            {
                done.2.push(*finding);
            }
        }
    }
}
