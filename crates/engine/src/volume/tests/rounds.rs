//! Files chosen for a round of writeback.
use super::rig::{BLOCK, Rig};
use crate::files::{FlushReason, Inode};
use segno_format::{Features, Ino};
use std::sync::Arc;

/// Most dirty pages of a file without a stream (4 MiB less one page).
const YOUNG: u64 = 1023;

fn write(rig: &Rig, file: &Inode, pages: u64) {
    rig.volume.write(file.ino, 0, &vec![7; (pages * BLOCK) as usize]).unwrap();
}
fn dirty(file: &Inode) -> u64 {
    file.pages.lock().dirty() as u64
}

#[test]
fn a_growing_file_is_flushed_after_others() {
    let rig = Rig::new(Features::default());
    let (young, large, old) = (rig.create(b"young"), rig.create(b"large"), rig.create(b"old"));
    let v = &rig.volume;
    write(&rig, &old, 8);
    v.sync().unwrap();
    write(&rig, &young, YOUNG);
    write(&rig, &large, 3000);
    write(&rig, &old, 1);
    let _all = v.writeback.threads.expedite();
    let mut turns = 0;
    while dirty(&large) + dirty(&old) > 0 {
        assert_eq!(dirty(&young), YOUNG, "after {turns} turns");
        assert!(v.writeback.serve(0), "more to write");
        turns += 1;
    }
    assert!(!v.writeback.serve(0), "nothing left to write");
    assert_eq!(dirty(&young), 0);
}

#[test]
fn growing_files_wait_for_more_dirty_data() {
    let rig = Rig::new(Features::default());
    let v = &rig.volume;
    let limit = v.writeback.background_limit();
    let all = || v.writeback.contexts.contexts()[0].dirty();
    let files = |n: u64| -> Vec<Arc<Inode>> {
        (0..n).map(|i| rig.create(format!("{n}-{i}").as_bytes())).inspect(|f| write(&rig, f, YOUNG)).collect()
    };
    let _some = files(limit / 2 / YOUNG + 1);
    let before = all();
    assert!(before > limit / 2 && !v.writeback.serve(0));
    assert_eq!(all(), before, "little is dirty, and all files are growing");
    let _more = files((limit - before) / YOUNG + 1);
    let before = all();
    assert!(before > limit && v.writeback.serve(0));
    assert!(all() < before);
}

/// A thread that chose a file for writeback may serve it only after its inode number names another file.
#[test]
fn a_freed_file_leaves_its_list() {
    let rig = Rig::new(Features::default());
    let v = &rig.volume;
    let old = rig.create(b"old");
    write(&rig, &old, 8);
    let chosen = v.writeback.contexts.contexts()[0].next_files(1);
    v.unlink(Ino::ROOT, b"old").unwrap();
    assert!(v.writeback.contexts.contexts()[0].files().is_empty());
    let new = (0..100_000).map(|i| rig.create(format!("{i}").as_bytes())).find(|f| f.ino == old.ino);
    let new = new.expect("the number of a freed inode is never used again");
    write(&rig, &new, 8);
    v.writeback.flush_group(&chosen, FlushReason::Wanted).unwrap();
    assert_eq!(dirty(&new), 8);
    v.sync().unwrap();
    assert_eq!(dirty(&new), 0);
}
