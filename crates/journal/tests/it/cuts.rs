//! Power cuts: every state that the recorded writes allow, and going on from each.
use crate::rig::*;
use segno_device::{MemDevice, Snapshot};
use segno_journal::{Area, Error, Journal};
use segno_testkit::{CrashLog, CrashPlan, CrashStates, RecordDevice};
use std::sync::Arc;

/// State of the volume and its journal at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Known {
    /// Epochs that a flush made durable.
    durable: u64,
    /// Epochs appended.
    appended: u64,
    /// The checkpoint in force, its boundary, and whether the next is announced durably.
    version: u64,
    boundary: u64,
}

fn mark(k: &Known) -> String {
    format!("{} {} {} {}", k.durable, k.appended, k.version, k.boundary)
}

fn known(text: &str) -> Known {
    let n: Vec<u64> = text.split(' ').map(|w| w.parse().unwrap()).collect();
    Known { durable: n[0], appended: n[1], version: n[2], boundary: n[3] }
}

/// A run of appends, flushes and checkpoints in a ring of 16 blocks; every change of the state is marked.
fn run(base: &Snapshot, mut k: Known, seed: u64, steps: u64) -> CrashLog {
    let dev = Arc::new(RecordDevice::new(MemDevice::from_snapshot(base)));
    dev.mark(mark(&k));
    let area = Area::whole(dev.clone());
    let data = MemDevice::new(8);
    let journal = match Journal::open(area, &checkpoint(k.version), &data).unwrap() {
        segno_journal::Opened::Usable(replay) => replay.into_journal().unwrap(),
        segno_journal::Opened::Stale(why) => panic!("{why}"),
    };
    for step in 0..steps {
        let draw = (seed + step).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        k.appended += 1;
        dev.mark(mark(&k));
        while let Err(e) = journal.append(&tagged(k.appended, 1 + (draw % 6) as usize, seed as i32)) {
            assert!(matches!(e, Error::Full { .. }), "{e}");
            journal.intend(intent(k.version + 1, k.appended - 1)).unwrap();
            journal.flush().unwrap();
            (k.version, k.boundary) = (k.version + 1, k.appended - 1);
            dev.mark(mark(&k));
            journal.reclaim().unwrap();
        }
        if draw.is_multiple_of(3) {
            journal.flush().unwrap();
            k.durable = k.appended;
            dev.mark(mark(&k));
        }
    }
    CrashLog::new(base.clone(), dev.log()).unwrap()
}

#[test]
fn every_cut_leaves_a_prefix_with_all_that_was_durable() {
    let dev = device(2 + 16);
    drop(create(&dev));
    let start = Known { version: 1, ..Known::default() };
    let (states, deeper) = explore(&dev.snapshot(), start, 1, 60, 2);
    assert!(states > 3_000 && deeper > 10_000, "{states} {deeper}");
}

/// Cuts a run everywhere and checks the result. From some of the states it continues, and cuts that run as
/// well.
fn explore(base: &Snapshot, start: Known, seed: u64, steps: u64, depth: u32) -> (u64, u64) {
    let log = run(base, start, seed, steps);
    let (mut states, mut deeper) = (0, 0);
    for state in CrashStates::new(&log, CrashPlan { subsets: 24, ..CrashPlan::new(seed) }, |_, _| true) {
        let k = known(log.marks(state.choice.cut).last().unwrap());
        let dev = Arc::new(state.device);
        let found = replay(open(&dev, k.version));
        let epochs = epochs(&found);
        let context = || {
            format!("seed {seed} depth {depth} state {} {:?}: {k:?} {epochs:?}", state.index, state.choice)
        };
        assert_eq!(found.boundary(), k.boundary, "{}", context());
        let last = epochs.last().copied().unwrap_or(k.boundary);
        assert_eq!(epochs, (k.boundary + 1..=last).collect::<Vec<_>>(), "{}", context());
        assert!((k.durable.max(k.boundary)..=k.appended).contains(&last), "{}", context());
        let foreign = tags(&found).into_iter().find(|&(e, tag)| e > start.appended && tag != seed as i32);
        assert_eq!(foreign, None, "a group that was cut off came back: {}", context());
        states += 1;
        // Groups that were not accepted are forgotten: their numbers are used again, with other content.
        if depth > 1 && states % 149 == 0 {
            let again = Known { durable: last, appended: last, ..k };
            deeper += explore(&dev.snapshot(), again, seed * 31 + states, 12, depth - 1).0;
        }
    }
    (states, deeper)
}
