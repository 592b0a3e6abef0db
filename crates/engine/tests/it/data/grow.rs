//! Files resized before the data that extended them is written.
use super::{BLOCK, Rig, pattern};
use segno_engine::FallocMode;
use segno_mkfs::MkfsOptions;

const LEN: u64 = 9 * BLOCK;

/// Creates a file of `LEN` bytes, changes it before any flush, and checks its size then and after remounting.
fn resized(change: impl Fn(&Rig, segno_format::Ino), size: u64) {
    let mut rig = Rig::new(96, &MkfsOptions::default());
    let ino = rig.create("f");
    rig.write(ino, 0, &pattern(1, LEN as usize));
    change(&rig, ino);
    assert_eq!(rig.size(ino), size);
    rig.volume.sync().unwrap();
    assert_eq!(rig.size(ino), size);
    rig.remount();
    assert_eq!(rig.size(ino), size);
}

#[test]
fn shorter_with_pages_left() {
    resized(|r, ino| r.truncate(ino, 5 * BLOCK + 1), 5 * BLOCK + 1);
}

#[test]
fn shorter_with_no_page_left() {
    resized(|r, ino| r.truncate(ino, 0), 0);
}

#[test]
fn longer() {
    resized(|r, ino| r.truncate(ino, 99 * BLOCK + 7), 99 * BLOCK + 7);
}

#[test]
fn shorter_and_longer_again() {
    let change = |r: &Rig, ino| {
        r.truncate(ino, 3 * BLOCK);
        r.truncate(ino, 7 * BLOCK);
        r.write(ino, 20 * BLOCK, b"x");
        r.truncate(ino, 12 * BLOCK);
    };
    resized(change, 12 * BLOCK);
}

#[test]
fn all_its_pages_punched_out() {
    resized(|r, ino| r.volume.fallocate(ino, FallocMode::PunchHole, 0, LEN).unwrap(), LEN);
}

#[test]
fn its_last_pages_zeroed() {
    let zero = |r: &Rig, ino| r.volume.fallocate(ino, FallocMode::ZeroRange, BLOCK, 2 * LEN).unwrap();
    resized(zero, 2 * LEN + BLOCK);
}

#[test]
fn more_reserved() {
    resized(|r, ino| r.volume.fallocate(ino, FallocMode::Allocate, 0, 50 * BLOCK).unwrap(), 50 * BLOCK);
    resized(|r, ino| r.volume.fallocate(ino, FallocMode::AllocateKeepSize, 0, 50 * BLOCK).unwrap(), LEN);
}

#[test]
fn blocks_moved() {
    resized(|r, ino| r.volume.fallocate(ino, FallocMode::CollapseRange, 0, BLOCK).unwrap(), LEN - BLOCK);
    resized(|r, ino| r.volume.fallocate(ino, FallocMode::InsertRange, 0, BLOCK).unwrap(), LEN + BLOCK);
}
