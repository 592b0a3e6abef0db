//! With a journal, commits continue during a checkpoint, and survive whichever checkpoint is current after a crash.
use super::{Journal, Scene, Tree, create, meanwhile, scene, tree};
use segno_device::MemDevice;
use segno_format::Ino;
use segno_testkit::{CrashLog, CrashPlan, CrashStates};
use std::sync::{Arc, Mutex};

/// A checkpoint with changes committed before one of its writes. Returns the number of device events until then.
fn committed_meanwhile(scene: &Scene, write: u64) -> Option<usize> {
    let promised = Arc::new(Mutex::new(None));
    let (v, dev, told) = (scene.v.clone(), scene.dev.clone(), promised.clone());
    scene.checkpoint_interrupted(
        write,
        Box::new(move || {
            meanwhile(&v);
            v.sync().unwrap();
            *told.lock().unwrap() = Some(dev.inner.log().len());
        }),
    );
    let events = promised.lock().unwrap();
    *events
}

#[test]
fn a_commit_during_a_checkpoint_does_not_wait_and_survives() {
    let mut writes = 0;
    loop {
        let scene = scene(Journal::With);
        let before = scene.stat("journal_commits");
        if committed_meanwhile(&scene, writes + 1).is_none() {
            break;
        }
        writes += 1;
        assert_eq!(scene.stat("journal_commits"), before + 1);
        assert_eq!(scene.read(&scene.image()), tree(&scene.v), "write {writes}");
        // Again, on top of the first checkpoint.
        create(&scene.v, Ino::ROOT, "last");
        scene.v.sync().unwrap();
        assert_eq!(scene.read(&scene.image()), tree(&scene.v), "write {writes}");
        scene.v.unmount().unwrap();
        assert!(scene.read(&scene.image()).contains_key("/last"));
    }
    assert!(writes >= 5, "{writes} writes");
}

/// Power cuts at every write: after the commit, exactly the committed state; before it, that of an earlier commit or
/// checkpoint.
#[test]
fn every_cut_keeps_what_was_committed_during_a_checkpoint() {
    for write in [1, 3, 5] {
        let scene = scene(Journal::With);
        let start = scene.read(&Arc::new(MemDevice::from_snapshot(&scene.base)));
        let committed = scene.read(&scene.image());
        let promised = committed_meanwhile(&scene, write).unwrap();
        let end: Tree = tree(&scene.v);
        let log = CrashLog::new(scene.base.clone(), scene.dev.inner.log()).unwrap();
        let plan = CrashPlan { subsets: 8, torn_data: 2, ..CrashPlan::new(write) };
        let mut seen = [0; 3];
        for state in CrashStates::new(&log, plan, |_, _| false).step_by(20) {
            let (index, choice) = (state.index, state.choice);
            let found = scene.read(&Arc::new(state.device));
            let which = [&start, &committed, &end].iter().position(|t| **t == found);
            let which = which.unwrap_or_else(|| panic!("write {write} state {index} {choice:?}: {found:?}"));
            assert!(choice.cut < promised || which == 2, "write {write} state {index} {choice:?}: {which}");
            seen[which] += 1;
        }
        assert!(seen[1] > 0 && seen[2] > 0, "write {write}: {seen:?}");
    }
}
