//! Checking volumes, with replay, and repairing them.
use crate::args::VolumePath;
use crate::error::os_error;
use crate::storage::{First, Storage};
use pyo3::prelude::*;
use segno::{CheckOptions, CheckReport, Checker, Error, Severity};

/// Severity, structure and description of a problem.
type Found = (&'static str, String, String);

/// The problems found, up to `max_problems`; numbers of all errors and warnings; whether the check was complete; whether the
/// volume was unmounted cleanly.
type Report = (Vec<Found>, u64, u64, bool, bool);

fn report(report: &CheckReport) -> Report {
    let problems = report.problems.iter().map(|p| {
        let severity = if p.severity == Severity::Error { "error" } else { "warning" };
        (severity, p.structure.to_string(), p.to_string())
    });
    let clean = report.summary.clean_unmount;
    (problems.collect(), report.errors, report.warnings, report.complete, clean)
}

/// Runs `f` without the interpreter lock.
fn run<T: Send>(py: Python<'_>, f: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    py.detach(|| segno::catch_panic(f)).map_err(|e| os_error(&e))
}

fn checker(storage: &Storage, writable: bool) -> Result<Checker, Error> {
    let checker = Checker::new(&storage.open(writable)?);
    let journal = storage.open_journal(writable)?;
    Ok(if let Some(journal) = journal { checker.journal(&journal) } else { checker })
}

/// Checks a volume as it is.
#[pyfunction(name = "_check")]
pub(crate) fn check(
    py: Python<'_>,
    path: First,
    devices: Vec<VolumePath>,
    max_problems: usize,
) -> PyResult<Report> {
    let options = CheckOptions { max_problems, data: false };
    let storage = Storage::new(path, devices, None)?;
    let found = run(py, || segno::check_with(&storage.open(false)?, &options, |_| ()))?;
    Ok(report(&found))
}

/// The report; whether only the tables were read; whether changes left by a crash were replayed for it;
/// whether there is anything to repair; why they cannot be replayed; why the newest checkpoint, and why
/// committed changes are known to be lost.
type Judged = (Report, bool, bool, bool, Option<String>, (Option<String>, Option<String>));

/// Checks a volume with the changes left by a crash replayed in memory.
#[pyfunction(name = "_check_replayed")]
pub(crate) fn check_replayed(
    py: Python<'_>,
    path: First,
    devices: Vec<VolumePath>,
    journal: Option<VolumePath>,
    max_problems: usize,
    quick: bool,
    data: bool,
) -> PyResult<Judged> {
    let options = CheckOptions { max_problems, data };
    let storage = Storage::new(path, devices, journal)?;
    let judged = run(py, || checker(&storage, false)?.quick(quick).check(&options, |_| ()))?;
    let repairable = judged.is_repairable() && judged.keeps_journal().is_none();
    let lost = (judged.lost_checkpoint(), judged.lost_changes());
    Ok((report(&judged.report), judged.quick, judged.replayed, repairable, judged.replay_error(), lost))
}

/// Whether something is lost; the inode and its path, where there are any; a description.
type Action = (bool, Option<u32>, Option<String>, String);

/// The actions of a repair, which are carried out if `write` is true.
#[pyfunction(name = "_repair")]
pub(crate) fn repair(
    py: Python<'_>,
    path: First,
    devices: Vec<VolumePath>,
    journal: Option<VolumePath>,
    write: bool,
) -> PyResult<Vec<Action>> {
    let storage = Storage::new(path, devices, journal)?;
    let plan = run(py, || {
        let checker = checker(&storage, write)?;
        let plan = checker.check_and_plan(&CheckOptions::default())?;
        if let (Some(plan), true) = (&plan, write) {
            checker.repair(plan)?;
        }
        Ok(plan)
    })?;
    let actions = plan.into_iter().flat_map(|plan| plan.actions);
    Ok(actions.map(|a| (a.loss, a.ino, a.path, a.text)).collect())
}

/// Replays the changes that a crash left on a volume that is not open, as the next open for writing would.
/// ``journal`` is the external journal, and ``devices`` are the devices of a volume of several after the
/// first, in order.
#[pyfunction]
#[pyo3(signature = (path, *, journal = None, devices = Vec::new()))]
pub(crate) fn replay(
    py: Python<'_>,
    path: First,
    journal: Option<VolumePath>,
    devices: Vec<VolumePath>,
) -> PyResult<()> {
    let storage = Storage::new(path, devices, journal)?;
    run(py, || checker(&storage, true)?.replay())
}
