//! Faults while a crashed volume is mounted: the durability guarantees hold nevertheless.
use super::{Counts, Effort, calls_of, cuts, sample};
use crate::capture::Tree;
use crate::crash::{Judge, Moment, RECOVERY_TIME, Violation, Workload, identify, record, recover};
use segno_device::{MemDevice, Snapshot};
use segno_testkit::caught;
use segno_testkit::{CountDevice, CrashChoice, Event, Fault, FaultDevice, Kept, RecordDevice};
use std::sync::Arc;

/// Fails the device calls of recovery, one at a time.
pub fn run(
    workload: &Workload,
    base: &Snapshot,
    effort: Effort,
    counts: &mut Counts,
) -> Result<(), Violation> {
    let outside = |what| Violation { state: "without a fault".into(), what };
    let setup = &workload.setup;
    let recorded = caught(|| record(base, workload)).map_err(outside)?;
    let cut = recorded.log.events().len();
    let image = recorded.log.image(&CrashChoice { cut, kept: Kept::All, torn: None });
    let image = setup.settle(image).map_err(outside)?;
    let moment = recorded.moment(cut);
    let mut judge = Judge::new(&recorded.history, setup.contract());
    let device = Arc::new(CountDevice::new(MemDevice::from_snapshot(&image)));
    caught(|| setup.mount(device.clone(), RECOVERY_TIME).map(drop).map_err(|e| e.to_string()))
        .map_err(outside)?;
    for fault in sample(calls_of(device.counts()), effort).take_while(|_| !effort.is_over()) {
        counts.fault_points += 1;
        let state = format!("{fault:?} while mounting");
        caught(|| mount(workload, &image, fault, &mut judge, moment, effort.seed, counts))
            .map_err(|what| Violation { state, what })?;
    }
    Ok(())
}

fn mount(
    workload: &Workload,
    image: &Snapshot,
    fault: Fault,
    judge: &mut Judge<'_>,
    moment: Moment,
    seed: u64,
    counts: &mut Counts,
) -> Result<(), String> {
    let setup = &workload.setup;
    let device = Arc::new(FaultDevice::new(RecordDevice::new(MemDevice::from_snapshot(image)), vec![fault]));
    if let Ok(mut engine) = setup.mount(device.clone(), RECOVERY_TIME) {
        // Recovery succeeded without the failed call.
        device.set_plan(Vec::new());
        let tree = Tree::capture(&mut engine)?;
        judge.judge(&tree, &identify(&engine, &tree)?, moment)?;
    }
    let mut events = device.inner().log();
    events.push(Event::Mark(String::new()));
    for (name, image) in cuts(setup, image, events, seed)? {
        counts.cuts += 1;
        recover(&image, setup, judge, moment).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}
