//! Power cuts: records what the engine writes, builds every device state that a cut can leave, mounts and checks it.
mod attr;
mod clusters;
mod expect;
mod history;
mod judge;
mod race;
mod rare;
mod scene;
mod set;
mod workload;

pub use expect::Contract;
pub(crate) use history::{Moment, Promise, Recorder, identify, record, since};
pub(crate) use judge::Judge;
pub use race::{race, races, races_on_one_file, telling_races};
pub use scene::{full, fulls, scene, scenes, scenes_each, scenes_of_attributes, telling_scenes};
pub use set::singles;
pub use workload::{Workload, drawn, pair, single};

use crate::behind;
use crate::capture::Tree;
use crate::compare::delete_everything;
use crate::fs::Fs;
use crate::notices::Notices;
use crate::op::Op;
use crate::setup::{Setup, check};
use crate::stored;
use crate::suite::Reach;
use history::Recorded;
use segno_device::{MemDevice, Snapshot};
use segno_format::BLOCK_SIZE;
use segno_testkit::Rng;
use segno_testkit::caught;
use segno_testkit::rng::mix;
use segno_testkit::{CrashLog, CrashPlan, CrashState, CrashStates, Kept, RecordDevice};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;
use workload::Start;

/// The clock while a crashed volume is recovered.
pub(crate) const RECOVERY_TIME: i64 = 9000;

/// Limits of a test.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub seed: u64,
    /// Maximum number of states of a workload, spread over all of them.
    pub states: Option<usize>,
    /// Random subsets where there are too many writes in flight to try all.
    pub subsets: usize,
    /// Recovery is also cut in one of `recovery` states, and the second recovery in the same share of those.
    pub recovery: u64,
    /// Maximum number of states inside a recovery.
    pub within: Option<usize>,
    /// One of `work` recovered volumes is written to and emptied.
    pub work: u64,
    /// No new state is started after this time.
    pub until: Option<Instant>,
}

impl Effort {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|u| Instant::now() > u)
    }
    /// Whether a state is one of `n`: a matter of the state alone, so that it is tried again however many there are.
    fn picks(&self, state: u64, n: u64) -> bool {
        mix(self.seed ^ mix(state)).checked_rem(n).is_none_or(|r| r == 0)
    }
}

/// Counts of tested workloads and states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub workloads: u64,
    pub crash_states: u64,
    pub recovery_states: u64,
    pub worked_on: u64,
    /// The largest recovered volume.
    pub reach: Reach,
}

/// A violation.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The cut.
    pub state: String,
    pub what: String,
}

/// Tries the power cuts of a workload.
pub fn run(workload: &Workload, effort: Effort, counts: &mut Counts) -> Result<(), Violation> {
    let outside = |what| Violation { state: "without a cut".into(), what };
    let base = workload.base().map_err(outside)?;
    let recorded = match &workload.race {
        None => caught(|| record(&base, workload)),
        Some(race) => caught(|| race.record(&base, workload)),
    }
    .map_err(outside)?;
    counts.workloads += 1;
    let described = |v: Violation| match &workload.race {
        Some(race) => Violation { state: format!("{race}; {}", v.state), ..v },
        None => v,
    };
    Trial::new(workload, &recorded, effort, counts).run().map_err(described)
}

/// The cuts of one recorded history.
struct Trial<'a> {
    setup: &'a Setup,
    start: Start,
    recorded: &'a Recorded,
    effort: Effort,
    counts: &'a mut Counts,
    judge: Judge<'a>,
    threads: u64,
}

impl<'a> Trial<'a> {
    fn new(workload: &'a Workload, recorded: &'a Recorded, effort: Effort, counts: &'a mut Counts) -> Self {
        let setup = &workload.setup;
        let judge = Judge::new(&recorded.history, setup.contract());
        let threads = 1 + u64::from(workload.race.is_some());
        Self { setup, start: workload.start, recorded, effort, counts, judge, threads }
    }

    fn run(&mut self) -> Result<(), Violation> {
        let recorded = self.recorded;
        let states = self.states(&recorded.log, self.effort.subsets, true);
        for state in spread(states, self.effort.states, self.effort.seed) {
            if self.effort.is_over() {
                break;
            }
            let moment = recorded.moment(state.choice.cut);
            self.counts.crash_states += 1;
            self.examine(state, moment, 0)?;
        }
        Ok(())
    }

    /// `early`: also with the end of a pack before the rest of it.
    fn states<'l>(&self, log: &'l CrashLog, subsets: usize, early: bool) -> CrashStates<'l> {
        let (main, zoned) = (self.recorded.main_start, self.setup.devices.are_zoned());
        // A block of a zone is either written or not, and a reset is not reordered before earlier writes.
        let torn_data = if zoned { 0 } else { 5 };
        let plan = CrashPlan { seed: self.effort.seed, subsets, torn_data, early: early && !zoned };
        CrashStates::new(log, plan, move |addr, block| addr < main || (!zoned && is_node(block)))
    }

    /// Recovers a state and checks the result; in some states recovery is cut as well.
    fn examine(&mut self, state: CrashState, moment: Moment, depth: u32) -> Result<(), Violation> {
        let name = format!("{} of step {}: {}", state.index, moment.begun, state.choice);
        let key = (state.index as u64) << 8 | u64::from(depth);
        let fail = |what| Violation { state: name.clone(), what };
        let image = self.setup.settle(state.device).map_err(fail)?;
        // A drive that had broken the order of writes may leave a pack of which one end is from before and one from now.
        let ordered = !matches!(state.choice.kept, Kept::AllAnd { .. });
        let recovery =
            caught(|| self.recover(&image, moment, key, u64::from(depth) + 1, ordered)).map_err(fail)?;
        let cut_too = ordered && depth < 2 && self.effort.picks(key ^ 0x80, self.effort.recovery);
        let Some(log) = recovery.filter(|_| cut_too) else {
            return Ok(());
        };
        let states = self.states(&log, if depth == 0 { 4 } else { 0 }, false);
        for state in spread(states, self.effort.within, key) {
            if depth == 1 && state.choice.torn.is_some() {
                continue;
            }
            if self.effort.is_over() {
                break;
            }
            self.counts.recovery_states += 1;
            self.examine(state, moment, depth + 1)
                .map_err(|v| Violation { state: format!("{name}; then in recovery {}", v.state), ..v })?;
        }
        Ok(())
    }

    /// Recovers; works on the volume now and then. Returns what recovery wrote, if it wrote anything.
    fn recover(
        &mut self,
        image: &Snapshot,
        moment: Moment,
        key: u64,
        cuts: u64,
        ordered: bool,
    ) -> Result<Option<CrashLog>, String> {
        let recovered = recover(image, self.setup, &mut self.judge, moment)?;
        if ordered {
            recovered.notices.none()?;
        }
        if self.effort.picks(key ^ 0x40, self.effort.work) {
            self.counts.worked_on += 1;
            let device = Arc::new(MemDevice::from_snapshot(&recovered.unmounted));
            work(self.setup, self.start, &device)?;
        }
        self.counts.reach += Reach { cuts, threads: self.threads, ..recovered.reach };
        Ok(Some(recovered.log).filter(|log| !log.events().is_empty()))
    }
}

/// A bounded number of states, spread over all.
fn spread(
    states: CrashStates<'_>,
    most: Option<usize>,
    seed: u64,
) -> impl Iterator<Item = CrashState> + use<'_> {
    let step = most.map_or(1, |most| states.len().div_ceil(most.max(1)).max(1));
    states.skip(Rng::new(seed).below(step as u64) as usize).step_by(step)
}

/// Result of mounting a crashed volume.
pub(crate) struct Recovered {
    /// The device calls of the mount.
    log: CrashLog,
    unmounted: Snapshot,
    reach: Reach,
    notices: Notices,
}

/// Mounts a crashed volume, checks its contents, and unmounts it.
pub(crate) fn recover(
    image: &Snapshot,
    setup: &Setup,
    judge: &mut Judge<'_>,
    moment: Moment,
) -> Result<Recovered, String> {
    setup.check(Arc::new(MemDevice::from_snapshot(image))).map_err(|e| format!("before recovery: {e}"))?;
    let device = Arc::new(RecordDevice::new(MemDevice::from_snapshot(image)));
    let notices = Notices::default();
    let mut engine = setup
        .mount_observed(device.clone(), RECOVERY_TIME, notices.observer())
        .map_err(|e| format!("it does not mount: {e}"))?;
    let log = CrashLog::new(image.clone(), device.log()).map_err(|e| format!("log: {e}"))?;
    let mut tree = Tree::capture(&mut engine).map_err(|e| format!("after recovery: {e}"))?;
    let reach = Reach::of_recovery(&engine, &log, tree.inodes.len());
    let (records, devices) = (behind::records(setup, image), setup.devices.count());
    let reach = Reach { records, devices, ..reach };
    behind::notices_foreign_writes(setup, image)?;
    let identities = identify(&engine, &tree)?;
    engine.unmount().map_err(|e| format!("unmount after recovery: {e}"))?;
    let unmounted = device.inner().snapshot();
    let mounted = setup.volume(Arc::new(MemDevice::from_snapshot(&unmounted))).map_err(|e| e.to_string())?;
    stored::read(&*mounted, &mut tree)?;
    judge.judge(&tree, &identities, moment)?;
    check(&*mounted).map_err(|e| format!("after recovery: {e}"))?;
    Ok(Recovered { log, unmounted, reach, notices })
}

/// Checks that the volume works: a new file is durable, and deleting everything frees all space.
fn work(setup: &Setup, start: Start, device: &Arc<MemDevice>) -> Result<(), String> {
    const NAME: &[u8] = b"new";
    let mut engine = setup.mount(device.clone(), 9500).map_err(|e| format!("second mount: {e}"))?;
    let root = engine.root();
    let before = Tree::capture(&mut engine).map_err(|e| format!("second mount: {e}"))?;
    let mut make = || {
        let node = engine.mknod(root, NAME, 0o100_644, (0, 0), segno_engine::Owner::default())?;
        engine.write(node, 0, &[7; 5000])?;
        engine.fsync(node, false)
    };
    match make() {
        Err(e) if start.refusals().contains(&e) => {
            engine.unmount().map_err(|e| format!("unmount: {e}"))?;
            return delete_everything(setup, device);
        }
        made => made.map_err(|e| format!("a new file after recovery: errno {e}"))?,
    }
    // Not unmounted: roll-forward recovers the file.
    drop(engine);
    let mut engine = setup.mount(device.clone(), 9600).map_err(|e| format!("third mount: {e}"))?;
    let node = engine.lookup(root, NAME).map_err(|e| format!("the new file is gone: errno {e}"))?;
    if engine.read(node, 0, 6000) != Ok(vec![7; 5000]) {
        return Err("the new file has other bytes".into());
    }
    let found = Tree::capture(&mut engine).map_err(|e| format!("third mount: {e}"))?;
    if let Some(what) = before.difference_but_for(NAME, found) {
        return Err(format!("a new file was synced, and after a cut another one is different: {what}"));
    }
    engine.unmount().map_err(|e| format!("unmount: {e}"))?;
    delete_everything(setup, device)
}

/// Whether a block of the main area looks like a node: small numbers where its footer would be.
fn is_node(block: &[u8; BLOCK_SIZE]) -> bool {
    let word =
        |at: usize| block.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
    let (nid, ino) = (word(BLOCK_SIZE - 24), word(BLOCK_SIZE - 20));
    (3..1 << 20).contains(&nid) && (3..1 << 20).contains(&ino)
}

/// Runs a workload, and shrinks it if it fails.
pub fn run_and_shrink(
    workload: &Workload,
    effort: Effort,
    counts: &mut Counts,
) -> Result<(), (Violation, Vec<Op>)> {
    let Err(first) = run(workload, effort, counts) else { return Ok(()) };
    if workload.race.is_some() {
        return Err((first, workload.ops.clone()));
    }
    let mut last = first;
    let again = |ops: &[Op]| {
        let shorter = Workload { ops: ops.to_vec(), ..workload.clone() };
        run(&shorter, effort, &mut Counts::default())
    };
    let ops = crate::op::shrink(&workload.ops, 60, |ops| match again(ops) {
        Err(v) => {
            last = v;
            true
        }
        Ok(()) => false,
    });
    Err((last, ops))
}
