//! Room that is promised to several callers.
use super::rig::Rig;
use crate::nodes::Grant;
use crate::writeback::Reclaim;
use segno_clean::need::Work;
use segno_format::Features;
use std::sync::Barrier;

const CALLERS: usize = 8;

/// Grants until one is refused.
fn take_all(rig: &Rig) -> Vec<Grant<'_>> {
    let most = rig.volume.base.batch_pages(usize::MAX);
    std::iter::from_fn(|| rig.volume.nodes.grant(most)).collect()
}

#[test]
fn callers_together_are_granted_what_one_is() {
    let rig = Rig::lfs(Features::empty());
    let alone = take_all(&rig).len();
    assert!(alone > 2 * CALLERS, "{alone}");
    let begin = Barrier::new(CALLERS);
    let held = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                scope.spawn(|| {
                    begin.wait();
                    take_all(&rig)
                })
            })
            .collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(held.len(), alone);
    drop(held);
    assert_eq!((rig.volume.base.mem.granted.get(), rig.volume.base.mem.granted_nodes.get()), (0, 0));
}

#[test]
fn the_batch_of_cleaning_under_way_keeps_its_room() {
    let rig = Rig::lfs(Features::empty());
    let nodes = &rig.volume.nodes;
    let quantum = rig.volume.base.batch_pages(usize::MAX) as u64;
    let before = take_all(&rig).len() as u64;
    nodes.plan(Work { left: 4 * quantum, dirtied: 0, sections: 1 });
    let beside = take_all(&rig);
    assert_eq!(beside.len() as u64, before - 4);

    assert!(nodes.promise_copies(4 * quantum).is_some(), "its copies fit beside all that is granted");
    nodes.plan(Work::default());
    drop(beside);
    assert_eq!(take_all(&rig).len() as u64, before);
}

#[test]
fn a_grant_covers_its_nodes_until_they_are_dirty() {
    let rig = Rig::lfs(Features::empty());
    let mem = &rig.volume.base.mem;
    let granted = rig.volume.nodes.grant(10).unwrap();
    assert_eq!((mem.granted.get(), mem.granted_nodes.get()), (10, 10));
    let nodes = granted.placed();
    assert_eq!((mem.granted.get(), mem.granted_nodes.get()), (0, 10));
    drop(nodes);
    assert_eq!((mem.granted.get(), mem.granted_nodes.get()), (0, 0));
}

/// Without holes to clean, a volume whose room is promised has none left. That decides nothing before the promise has ended.
#[test]
fn space_is_not_spent_while_a_batch_is_under_way() {
    let rig = Rig::lfs(Features::empty());
    let v = &rig.volume;
    let ended = v.nodes.grants_ended();
    assert!(ended.is_some());
    let granted = v.nodes.grant_anyway(1 << 24);
    assert!(!v.nodes.can_place());
    assert!(v.gc.reclaim().unwrap(), "the caller asks again");
    let nodes = granted.placed();
    assert_eq!(v.nodes.grants_ended(), None, "its nodes are not dirty yet");
    drop(nodes);
    // A batch that began and ended meanwhile shows.
    assert!(v.nodes.grants_ended().is_some_and(|now| Some(now) != ended));
}

/// Blocks overwritten since they were listed are not left, and get no room.
#[test]
fn copies_get_no_more_room_than_the_batch_has_left() {
    let rig = Rig::lfs(Features::empty());
    rig.volume.nodes.plan(Work { left: 3, dirtied: 1, sections: 1 });
    let granted = rig.volume.nodes.promise_copies(4).unwrap();
    assert_eq!((granted.blocks(), rig.volume.base.mem.granted_nodes.get()), (3, 1));
    drop(granted);
    assert_eq!(rig.volume.nodes.promise_copies(4).unwrap().blocks(), 0);
}
