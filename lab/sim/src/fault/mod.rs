//! Device faults: every call in turn fails, once or permanently. Errors must be reported, nothing may panic, and the device must
//! recover as after a power cut.
mod mount;

use crate::crash::{Contract, Judge, Moment, Promise, Recorder, Violation, Workload, recover, since};
use crate::fs::errno;
use crate::op::{Op, shrink};
use crate::setup::Setup;
use segno_device::{MemDevice, Snapshot};
use segno_testkit::Counts as Counted;
use segno_testkit::Rng;
use segno_testkit::caught;
use segno_testkit::{
    CountDevice, CrashChoice, CrashLog, Event, Fault, FaultCall, FaultDevice, FaultError, Kept, RecordDevice,
};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

type Device = FaultDevice<RecordDevice<MemDevice>>;

/// Maximum number of runs to shrink a workload.
const SHRINK_TRIES: usize = 60;

/// Limits of a test.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub seed: u64,
    /// Number of faults in a workload, spread over all calls.
    pub points: u64,
    /// No new fault is started after this time.
    pub until: Option<Instant>,
}

impl Effort {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|u| Instant::now() > u)
    }
}

/// Counts of tested workloads and faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub workloads: u64,
    pub fault_points: u64,
    /// How many of them stopped the volume.
    pub stopped: u64,
    /// Power cuts after faults.
    pub cuts: u64,
}

/// Fails device calls of a workload, one at a time.
pub fn run(workload: &Workload, effort: Effort, counts: &mut Counts) -> Result<(), Violation> {
    let outside = |what| Violation { state: "without a fault".into(), what };
    let base = workload.base().map_err(outside)?;
    let calls = caught(|| count_calls(workload, &base)).map_err(outside)?;
    counts.workloads += 1;
    for fault in sample(calls, effort).take_while(|_| !effort.is_over()) {
        counts.fault_points += 1;
        let state = format!("{fault:?}");
        caught(|| Trial::new(workload, &base, fault)?.run(effort.seed, counts))
            .map_err(|what| Violation { state, what })?;
    }
    mount::run(workload, &base, effort, counts)
}

/// Runs a workload, and shrinks it if it fails.
pub fn run_and_shrink(
    workload: &Workload,
    effort: Effort,
    counts: &mut Counts,
) -> Result<(), (Violation, Vec<Op>)> {
    let Err(first) = run(workload, effort, counts) else { return Ok(()) };
    let mut last = first;
    let ops = shrink(&workload.ops, SHRINK_TRIES, |ops| {
        let shorter = Workload { ops: ops.to_vec(), ..workload.clone() };
        run(&shorter, effort, &mut Counts::default()).is_err_and(|v| {
            last = v;
            true
        })
    });
    Err((last, ops))
}

/// A selection of the faults that these calls can have.
fn sample(calls: Calls, effort: Effort) -> impl Iterator<Item = Fault> {
    let faults: Vec<Fault> =
        calls.into_iter().flat_map(|(call, n)| (0..n).flat_map(move |nth| kinds(call, nth))).collect();
    let step = (faults.len() as u64).div_ceil(effort.points.max(1)).max(1);
    let skip = Rng::new(effort.seed).below(step) as usize;
    faults.into_iter().skip(skip).step_by(step as usize)
}

/// How many there are of each kind.
type Calls = [(FaultCall, u64); 4];

fn calls_of(made: Counted) -> Calls {
    [
        (FaultCall::Read, made.reads),
        (FaultCall::Write, made.writes + made.fua_writes),
        (FaultCall::Flush, made.flushes),
        (FaultCall::Discard, made.discards),
    ]
}

fn kinds(call: FaultCall, nth: u64) -> [Fault; 4] {
    let fault = |error, lasting| Fault { call, nth, error, lasting };
    let once = |error| fault(error, false);
    [once(FaultError::Io), fault(FaultError::Io, true), once(FaultError::NoSpace), once(FaultError::Short)]
}

/// Operations that a fault leaves in a state the model can follow.
fn steps(workload: &Workload) -> impl Iterator<Item = &Op> {
    workload.ops.iter().filter(|op| !matches!(op, Op::Remount))
}

/// Calls of each kind that the operations and the unmount make.
fn count_calls(workload: &Workload, base: &Snapshot) -> Result<Calls, String> {
    let device = Arc::new(CountDevice::new(MemDevice::from_snapshot(base)));
    let engine = workload.setup.mount(device.clone(), 1000).map_err(|e| format!("mount: {e}"))?;
    let mut recorder = Recorder::start(engine, workload.setup.model.limits())?;
    let before = device.counts();
    for op in steps(workload) {
        let got = recorder.apply(op);
        recorder.note(op, got, workload.start.refusals())?;
    }
    recorder.engine.unmount().map_err(|e| format!("unmount: {e}"))?;
    Ok(calls_of(device.counts() - before))
}

/// One workload with one fault.
struct Trial<'a> {
    workload: &'a Workload,
    base: Snapshot,
    mounted_at: usize,
    device: Arc<Device>,
    recorder: Recorder,
    fault: Fault,
    /// An error was returned.
    reported: bool,
}

impl<'a> Trial<'a> {
    fn new(workload: &'a Workload, base: &Snapshot, fault: Fault) -> Result<Self, String> {
        let device =
            Arc::new(FaultDevice::new(RecordDevice::new(MemDevice::from_snapshot(base)), Vec::new()));
        let engine = workload.setup.mount(device.clone(), 1000).map_err(|e| format!("mount: {e}"))?;
        let recorder = Recorder::start(engine, workload.setup.model.limits())?;
        let mounted_at = device.inner().log().len();
        let base = device.inner().inner().snapshot();
        device.set_plan(vec![fault]);
        Ok(Self { workload, base, mounted_at, device, recorder, fault, reported: false })
    }

    fn run(&mut self, seed: u64, counts: &mut Counts) -> Result<(), String> {
        for (number, op) in (1..).zip(steps(self.workload)) {
            let got = self.recorder.apply(op);
            let may_refuse: &[i32] =
                if self.device.failed() > 0 { &[errno::EIO, errno::ENOSPC] } else { &[] };
            self.reported |=
                self.recorder.note(op, got, may_refuse).map_err(|e| format!("step {number}: {e}"))?;
        }
        let stopped = self.recorder.engine.is_stopped();
        let unmounted = self.recorder.engine.unmount();
        self.reported |= unmounted.is_err();
        // A read or write may be repeated. Data that a failed flush has lost cannot be written by a
        // repetition. A journal on a separate device may fail: the volume continues without it.
        let must_report = self.fault.call == FaultCall::Flush && !self.workload.setup.devices.have_journal();
        if self.device.failed() > 0 && !self.reported && must_report {
            return Err("a failed flush was not reported".into());
        }
        let stopped = stopped || unmounted.is_err();
        if stopped {
            counts.stopped += 1;
            self.after_stop(seed, counts)
        } else {
            self.after_unmount()
        }
    }

    /// Everything is present after a clean unmount.
    fn after_unmount(&mut self) -> Result<(), String> {
        let history = &mut self.recorder.history;
        history.states.extend(history.states.last().cloned());
        history.promise(Promise::All);
        self.cut(self.device.inner().inner().snapshot()).map_err(|e| format!("after unmount: {e}"))
    }

    /// Cuts power; unflushed writes may be lost.
    fn after_stop(&self, seed: u64, counts: &mut Counts) -> Result<(), String> {
        let mut events = since(self.device.inner().log(), self.mounted_at);
        // The last write had returned.
        events.push(Event::Mark(String::new()));
        for (name, image) in cuts(&self.workload.setup, &self.base, events, seed)? {
            counts.cuts += 1;
            self.cut(image).map_err(|e| format!("{name}: {e}"))?;
        }
        Ok(())
    }

    fn cut(&self, image: Snapshot) -> Result<(), String> {
        let history = &self.recorder.history;
        let setup = &self.workload.setup;
        let moment = Moment { returned: history.promises.len(), begun: history.promises.len() };
        // Without its journal, which may have failed, a volume keeps the guarantees of strict mode.
        let contract = match setup.contract() {
            Contract::Journal => Contract::Strict,
            other => other,
        };
        let mut judge = Judge::new(history, contract);
        recover(&image, setup, &mut judge, moment).map(drop)
    }
}

/// States after a power cut at the end of a log, with names.
fn cuts(
    setup: &Setup,
    base: &Snapshot,
    events: Vec<Event>,
    seed: u64,
) -> Result<Vec<(String, Snapshot)>, String> {
    let cut = events.len();
    let log = CrashLog::new(base.clone(), events).map_err(|e| format!("log: {e}"))?;
    let all = [Kept::All, Kept::Nothing, Kept::DrawnWrites { seed }, Kept::DrawnBlocks { seed }];
    let image = |kept| setup.settle(log.image(&CrashChoice { cut, kept, torn: None }));
    all.into_iter().map(|kept| Ok((format!("power cut, {kept:?} arrived"), image(kept)?))).collect()
}
