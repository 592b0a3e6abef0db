//! Without a journal: the device has the state at the boundary, and nothing later.
use super::{Journal, Scene, meanwhile, scene, tree};
use crate::common::assert_clean;
use segno_device::MemDevice;
use segno_engine::lab::Probe;
use segno_testkit::{CrashLog, CrashPlan, CrashStates};
use std::sync::Arc;

/// Runs a checkpoint once for each of its writes.
fn each_write(journal: Journal, mut judge: impl FnMut(u64, &Scene)) {
    let mut writes = 0;
    loop {
        let scene = scene(journal);
        if !scene.changed_meanwhile(writes + 1) {
            break;
        }
        writes += 1;
        judge(writes, &scene);
    }
    assert!(writes >= 5, "{writes} writes");
}

#[test]
fn a_checkpoint_contains_its_boundary_whatever_changes_during_it() {
    for journal in [Journal::Without, Journal::With] {
        let plain = scene(journal);
        plain.v.sync().unwrap();
        let at_boundary = tree(&plain.v);
        meanwhile(&plain.v);
        let at_end = tree(&plain.v);
        each_write(journal, |write, scene| {
            assert_eq!(tree(&scene.v), at_end, "write {write}");
            assert_eq!(scene.read(&scene.image()), at_boundary, "write {write}");
            scene.v.sync().unwrap();
            assert_eq!(scene.read(&scene.image()), at_end, "write {write}");
            Probe(&scene.v).checkpoint().unwrap();
            assert_eq!(scene.read(&scene.image()), at_end, "write {write}");
            scene.v.unmount().unwrap();
            assert_clean(&*scene.image());
        });
    }
}

/// Changes made while nodes are written ahead of the boundary are in the checkpoint: their nodes are written
/// once more.
#[test]
fn a_checkpoint_contains_what_changes_while_nodes_are_written_ahead() {
    let mut writes = 0;
    loop {
        let scene = scene(Journal::Without);
        let v = scene.v.clone();
        let before = scene.stat("nodes_ahead");
        let hook = move || std::thread::spawn(move || meanwhile(&v)).join().unwrap();
        scene.dev.arm_ahead(writes + 1, Box::new(hook));
        scene.v.sync().unwrap();
        let ahead = scene.stat("nodes_ahead") - before;
        assert!(ahead >= super::MANY as u64, "{ahead} nodes ahead");
        if !scene.dev.disarm() {
            break;
        }
        writes += 1;
        let at_end = tree(&scene.v);
        scene.v.sync().unwrap();
        assert_eq!(scene.read(&scene.image()), at_end, "write {writes}");
        scene.v.unmount().unwrap();
        assert_clean(&*scene.image());
    }
    assert!(writes >= 5, "{writes} writes");
}

/// Power cuts through the interrupted checkpoint and the next one: always the state before or after.
#[test]
fn every_cut_of_an_interrupted_checkpoint_leaves_the_state_before_or_after() {
    let write = 2;
    let scene = scene(Journal::Without);
    let start = scene.read(&Arc::new(MemDevice::from_snapshot(&scene.base)));
    assert!(scene.changed_meanwhile(write));
    let boundary = scene.read(&scene.image());
    scene.v.sync().unwrap();
    let end = scene.read(&scene.image());
    let log = CrashLog::new(scene.base.clone(), scene.dev.inner.log()).unwrap();
    let plan = CrashPlan { subsets: 8, torn_data: 2, ..CrashPlan::new(write) };
    let mut seen = [0; 3];
    for state in CrashStates::new(&log, plan, |_, _| false).step_by(12) {
        let (index, choice) = (state.index, state.choice);
        let found = scene.read(&Arc::new(state.device));
        let which = [&start, &boundary, &end].iter().position(|t| **t == found);
        seen[which.unwrap_or_else(|| panic!("write {write} state {index} {choice:?}: {found:?}"))] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn a_checkpoint_is_counted_once_with_its_blocking_time() {
    let scene = scene(Journal::Without);
    let count = || scene.v.stats().checkpoint_blocked.recorded().count();
    let before = (scene.stat("checkpoints"), count());
    scene.v.sync().unwrap();
    scene.v.sync().unwrap();
    assert_eq!((scene.stat("checkpoints"), count()), (before.0 + 1, before.1 + 1));
    let told = scene.stat("checkpoint_blocked_ns_max");
    assert!(told > 0 && told <= scene.stat("checkpoint_ns"), "{told}");
}
