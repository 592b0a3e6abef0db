//! Room that is promised to several callers.
use super::rig::{BLOCK, Rig};
use crate::error::Error;
use crate::files::Inode;
use crate::room::Grant;
use crate::types::FallocMode;
use crate::writeback::Reclaim;
use segno_clean::need::{Request, Work};
use segno_format::summary::RawSummary;
use segno_format::{Features, Nid, sit::LogType};
use segno_testkit::Rng;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

const CALLERS: usize = 8;

/// Grants until one is refused.
fn take_all(rig: &Rig) -> Vec<Grant<'_>> {
    let most = rig.volume.files.room.batch_pages(usize::MAX);
    std::iter::from_fn(|| rig.volume.files.room.grant(Request::batch(most))).collect()
}

/// Fills the volume with one file, and leaves holes everywhere. Returns the file and its blocks.
fn full(rig: &Rig) -> (Arc<Inode>, u64) {
    let (v, file) = (&rig.volume, rig.create(b"file"));
    let blocks = (0..).find(|n| v.write(file.ino, n * BLOCK, &[*n as u8; BLOCK as usize]).is_err()).unwrap();
    let mut rng = Rng::new(1);
    for _ in 0..blocks {
        let at = rng.below(blocks);
        v.write(file.ino, at * BLOCK, &[at as u8; BLOCK as usize]).unwrap();
    }
    v.sync().unwrap();
    (file, blocks)
}

/// Uses up room, with addresses that no file has, until a batch is refused.
fn use_up(rig: &Rig) {
    let v = &rig.volume;
    let owners = vec![RawSummary::data(Nid(4), 0, 0); 32];
    while let Some(granted) = v.files.room.grant(Request::default()) {
        drop(granted);
        drop(v.files.space.allocate(LogType::ColdData, &owners).unwrap());
    }
}

/// Moves the last blocks of the file down by one, or up.
fn shift(rig: &Rig, file: &Inode, blocks: u64, mode: FallocMode) -> crate::Result<()> {
    rig.volume.fallocate(file.ino, mode, (blocks - 20) * BLOCK, BLOCK)
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
    let room = &rig.volume.files.room;
    let quantum = rig.volume.files.room.batch_pages(usize::MAX) as u64;
    let before = take_all(&rig).len() as u64;
    room.plan(Work { left: 4 * quantum, dirtied: 0, sections: 1 });
    let beside = take_all(&rig);
    assert_eq!(beside.len() as u64, before - 4);

    assert!(room.promise_copies(4 * quantum).is_some(), "its copies fit beside all that is granted");
    room.plan(Work::default());
    drop(beside);
    assert_eq!(take_all(&rig).len() as u64, before);
}

#[test]
fn a_grant_covers_its_nodes_until_they_are_dirty() {
    let rig = Rig::lfs(Features::empty());
    let mem = &rig.volume.base.mem;
    let granted = rig.volume.files.room.grant(Request::batch(10)).unwrap();
    assert_eq!((mem.granted.get(), mem.granted_nodes.get()), (10, 10));
    let nodes = granted.placed();
    assert_eq!((mem.granted.get(), mem.granted_nodes.get()), (0, 10));
    drop(nodes);
    assert_eq!((mem.granted.get(), mem.granted_nodes.get()), (0, 0));
}

/// A volume without holes to clean has no room while it is promised. That is no reason to refuse before the
/// promise has ended.
#[test]
fn a_caller_without_room_waits_for_the_end_of_a_grant() {
    let rig = Rig::lfs(Features::empty());
    let v = &rig.volume;
    let under_way = &v.files.room.under_way;
    let before = under_way.seen();
    assert!(under_way.none_since(before));
    let granted = v.files.room.grant_anyway(Request::batch(1 << 24));
    assert!(!v.files.room.can_place());
    thread::scope(|scope| {
        let caller = scope.spawn(|| v.gc.reclaim(Request::default()));
        assert!(!ends(&caller), "it returned while the room was promised");
        let nodes = granted.placed();
        assert!(!ends(&caller), "its nodes are not dirty yet");
        drop(nodes);
        assert!(caller.join().unwrap().unwrap(), "the caller asks again");
    });
    // A batch that began and ended meanwhile shows.
    assert!(!under_way.none_since(before) && under_way.none_since(under_way.seen()));
}

/// Whether a thread ends that should wait.
fn ends<T>(thread: &thread::ScopedJoinHandle<'_, T>) -> bool {
    (0..100).any(|_| {
        thread::sleep(Duration::from_millis(1));
        thread.is_finished()
    })
}

/// Writeback cleans where the room that is left is kept for cleaning; so does a range that moves.
#[test]
fn blocks_move_where_cleaning_makes_room_for_them() {
    let rig = Rig::lfs(Features::empty());
    let (file, blocks) = full(&rig);
    for mode in [FallocMode::CollapseRange, FallocMode::InsertRange] {
        use_up(&rig);
        shift(&rig, &file, blocks, mode).unwrap_or_else(|e| panic!("{mode:?}: {e}"));
    }
    assert_eq!(rig.read(file.ino, (blocks - 1) * BLOCK, 1), [(blocks - 1) as u8]);
    assert_eq!((rig.volume.base.mem.granted.get(), rig.volume.base.mem.granted_nodes.get()), (0, 0));
}

#[test]
fn blocks_that_move_wait_for_room_that_others_are_promised() {
    let rig = Rig::lfs(Features::empty());
    let (file, blocks) = full(&rig);
    let held = take_all(&rig);
    let rest = rig.volume.files.room.grant_anyway(Request::batch(1 << 20));
    thread::scope(|scope| {
        let moves = scope.spawn(|| shift(&rig, &file, blocks, FallocMode::CollapseRange));
        assert!(!ends(&moves), "it ended without room");
        drop((held, rest));
        moves.join().unwrap().unwrap();
    });
    assert_eq!(rig.volume.files.inode(file.ino).unwrap().size(), (blocks - 1) * BLOCK);
}

/// The copies of all blocks do not fit into what is kept from users.
#[test]
fn more_blocks_than_fit_do_not_move() {
    let rig = Rig::lfs(Features::empty());
    let (file, blocks) = full(&rig);
    let free = rig.volume.statfs().bfree;
    let moved = rig.volume.fallocate(file.ino, FallocMode::CollapseRange, 0, BLOCK);
    assert!(matches!(moved, Err(Error::NoSpace)), "{moved:?}");
    assert_eq!((rig.volume.statfs().bfree, file.size()), (free, blocks * BLOCK));
    // Everything works as before.
    rig.volume.write(file.ino, 0, &[9; BLOCK as usize]).unwrap();
    rig.volume.sync().unwrap();
}

/// Blocks overwritten since they were listed no longer count in the batch, and get no room.
#[test]
fn copies_get_no_more_room_than_the_batch_has_left() {
    let rig = Rig::lfs(Features::empty());
    rig.volume.files.room.plan(Work { left: 3, dirtied: 1, sections: 1 });
    let granted = rig.volume.files.room.promise_copies(4).unwrap();
    assert_eq!((granted.blocks(), rig.volume.base.mem.granted_nodes.get()), (3, 1));
    drop(granted);
    assert_eq!(rig.volume.files.room.promise_copies(4).unwrap().blocks(), 0);
}
