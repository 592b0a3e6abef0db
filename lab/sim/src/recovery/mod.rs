//! Power cuts of recovery, and of the recovery after that. The volumes have enough inodes that recovery opens
//! segments in addition to those of the logs.
mod volume;

pub use volume::{Crashed, recoveries};

use crate::behind;
use crate::capture::Tree;
use crate::crash::{Counts, RECOVERY_TIME, Violation};
use crate::notices::Notices;
use crate::suite::Reach;
use segno_device::{MemDevice, Snapshot};
use segno_testkit::caught;
use segno_testkit::rng::mix;
use segno_testkit::{CrashLog, CrashPlan, CrashState, CrashStates, Event, Kept, RecordDevice, Rng};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Subsets of the writes in flight that are tried of a first recovery; as many of those where a pack is committed.
const SUBSETS: usize = 60;
/// Pairs of cuts of a volume of which not all are tried: by size.
const PAIRS: [usize; 2] = [500, 50];

/// Limits of a test.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub seed: u64,
    /// Most cuts of the first recovery, and as many subsets of the writes in flight.
    pub states: Option<usize>,
    /// Most pairs of cuts.
    pub pairs: Option<usize>,
    /// No new state is started after this time.
    pub until: Option<Instant>,
}

/// Tries the cuts of one volume.
pub fn run(number: u64, effort: Effort, counts: &mut Counts) -> Result<(), Violation> {
    let outside = |what| Violation { state: "before the crash".into(), what };
    let crashed = caught(|| Crashed::make(number)).map_err(outside)?;
    counts.workloads += 1;
    let every = volume::is_exhaustive(number) && effort.pairs.is_none();
    let pairs = if every {
        usize::MAX
    } else {
        effort.pairs.unwrap_or(PAIRS.get(volume::size(number)).copied().unwrap_or(0))
    };
    Trial { crashed, effort, pairs, counts }.run()
}

struct Trial<'a> {
    crashed: Crashed,
    effort: Effort,
    pairs: usize,
    counts: &'a mut Counts,
}

impl Trial<'_> {
    fn run(&mut self) -> Result<(), Violation> {
        let image = self.crashed.image.clone();
        let fail = |what| Violation { state: "recovery without a cut".into(), what };
        let log = self.recover(&image, 1).map_err(fail)?;
        self.subsets(committed(&log, self.effort.seed))?;
        self.prefixes(&log)?;
        self.subsets(states(&log, self.effort.seed))
    }

    /// Each prefix of the first recovery, and of each some prefixes of the second, or all.
    fn prefixes(&mut self, log: &CrashLog) -> Result<(), Violation> {
        let firsts = prefixes(log, self.effort.seed);
        let skipped = self.effort.states.map_or(1, |most| firsts.len().div_ceil(most.max(1)));
        let each = self.pairs.div_ceil(firsts.len().div_ceil(skipped.max(1)).max(1));
        for first in firsts.into_iter().step_by(skipped.max(1)) {
            let name = first.choice.to_string();
            let Some(again) = self.examine(first, "", 1)? else { return Ok(()) };
            let seconds = prefixes(&again, self.effort.seed);
            let step = seconds.len().div_ceil(each.max(1)).max(1);
            let skip = Rng::new(mix(self.effort.seed ^ self.counts.recovery_states)).below(step as u64);
            for second in seconds.into_iter().skip(skip as usize).step_by(step) {
                if self.examine(second, &name, 2)?.is_none() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Writes of the first recovery that arrive in another order.
    fn subsets(&mut self, states: CrashStates<'_>) -> Result<(), Violation> {
        let most = self.effort.states.unwrap_or(SUBSETS).max(1);
        let step = states.len().div_ceil(most).max(1);
        for state in states.step_by(step) {
            if self.examine(state, "", 1)?.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Recovers a state, and returns what that wrote; nothing if the time is up.
    fn examine(&mut self, state: CrashState, first: &str, cuts: u64) -> Result<Option<CrashLog>, Violation> {
        if self.effort.until.is_some_and(|until| Instant::now() > until) {
            return Ok(None);
        }
        let named = if first.is_empty() { String::new() } else { format!("{first}; then ") };
        let fail = |what| Violation { state: format!("in recovery {named}{}", state.choice), what };
        let image = self.crashed.setup.settle(state.device).map_err(fail)?;
        self.counts.recovery_states += 1;
        caught(|| self.recover(&image, cuts + 1)).map(Some).map_err(fail)
    }

    /// Mounts the volume, and compares everything in it. Nothing is reported to the user.
    fn recover(&mut self, image: &Snapshot, cuts: u64) -> Result<CrashLog, String> {
        let setup = &self.crashed.setup;
        let notices = Notices::default();
        setup
            .check(Arc::new(MemDevice::from_snapshot(image)))
            .map_err(|e| format!("before recovery: {e}"))?;
        let device = Arc::new(RecordDevice::new(MemDevice::from_snapshot(image)));
        let mut engine = setup
            .mount_observed(device.clone(), RECOVERY_TIME, notices.observer())
            .map_err(|e| format!("it does not mount: {e}"))?;
        let log = CrashLog::new(image.clone(), device.log()).map_err(|e| format!("log: {e}"))?;
        let found = Tree::capture(&mut engine).map_err(|e| format!("after recovery: {e}"))?;
        let reach = Reach::of_recovery(&engine, &log, found.inodes.len());
        let records = if cuts == 1 { behind::records(setup, image) } else { 0 };
        behind::notices_foreign_writes(setup, image)?;
        self.counts.reach += Reach { cuts, records, devices: setup.devices.count(), ..reach };
        if let Some(what) = self.crashed.difference(found, self.crashed.tree.clone()) {
            return Err(notices.none().err().map_or(what.clone(), |told| format!("{what}; {told}")));
        }
        engine.unmount().map_err(|e| format!("unmount after recovery: {e}"))?;
        let unmounted = Arc::new(MemDevice::from_snapshot(&device.inner().snapshot()));
        setup.check(unmounted).map_err(|e| format!("after recovery: {e}"))?;
        notices.none().map(|()| log)
    }
}

/// All states but those with a torn write.
fn states(log: &CrashLog, seed: u64) -> CrashStates<'_> {
    let plan = CrashPlan { seed, subsets: 20, torn_data: 0, early: false };
    CrashStates::new(log, plan, |_, _| false)
}

/// Those where the last block of a pack may be there, and those at the end: of the writes in flight then, which are few, any may be
/// lost.
fn committed(log: &CrashLog, seed: u64) -> CrashStates<'_> {
    let is_last = |event: &Event| matches!(event, Event::Write { fua: true, .. });
    let cuts: BTreeSet<usize> = (1..)
        .zip(log.events())
        .filter_map(|(cut, event)| is_last(event).then_some(cut))
        .chain([log.events().len()])
        .collect();
    states(log, seed).only(|choice| choice.kept != Kept::All && cuts.contains(&choice.cut))
}

fn prefixes(log: &CrashLog, seed: u64) -> Vec<CrashState> {
    let plan = CrashPlan { seed, subsets: 0, torn_data: 0, early: false };
    CrashStates::new(log, plan, |_, _| false).filter(|s| s.choice.kept == Kept::All).collect()
}
