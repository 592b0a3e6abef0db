//! fsync: the nodes it finds and writes, the flushes it takes, and its reasons for a checkpoint.
use crate::common::{assert_clean, fresh, mount, quiet};
use segno_device::{BlockDevice, MemDevice};
use segno_engine::lab;
use segno_engine::options::{FsyncLookup, FsyncMode, JournalMode};
use segno_engine::stat::CpReason;
use segno_engine::{Clock, JournalArea, MountOptions, Owner, RenameMode, Time, Volume, XattrMode};
use segno_format::{Block, Ino};
use segno_mkfs::MkfsOptions;
use segno_testkit::{CountDevice, forward};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const FILE: u16 = 0o100_644;

fn create(v: &Volume, name: &str) -> Ino {
    v.mknod(Ino::ROOT, name.as_bytes(), FILE, (0, 0), Owner::default()).unwrap().ino
}

/// A file with inode block, direct nodes and indirect nodes, all dirty.
fn large(v: &Volume, name: &str) -> Ino {
    let ino = create(v, name);
    for block in [0, 1000, 2000, 3000, 5000] {
        v.write(ino, block * 4096, &[1; 4096]).unwrap();
    }
    ino
}

/// (searched, written) since mount.
fn nodes(v: &Volume) -> (u64, u64) {
    let s = &v.stats().fsync;
    (s.searched.load(Ordering::Relaxed), s.written.load(Ordering::Relaxed))
}

#[test]
fn the_list_visits_only_written_nodes_and_the_global_search_all() {
    for mode in [FsyncMode::Strict, FsyncMode::Posix] {
        let v =
            Volume::mount(fresh(96, &MkfsOptions::default()), MountOptions { fsync_mode: mode, ..quiet() })
                .unwrap();
        let file = large(&v, "mine");
        v.sync().unwrap();
        for i in 0..100 {
            create(&v, &format!("foreign{i}"));
        }
        v.write(file, 1000 * 4096, &[2; 4096]).unwrap();
        v.fsync(file).unwrap();
        assert_eq!(nodes(&v), (2, 2), "{mode:?}: the inode block and one direct node");

        v.set_fsync_lookup(FsyncLookup::Global);
        v.write(file, 1000 * 4096, &[3; 4096]).unwrap();
        // Flushing the data dirties the direct node.
        let dirty = dirty_nodes(&v) + 1;
        v.fsync(file).unwrap();
        assert_eq!(nodes(&v), (2 + dirty, 4), "{mode:?}");
        assert!(dirty >= 102);

        v.set_fsync_lookup(FsyncLookup::Shadow);
        v.write(file, 1000 * 4096, &[4; 4096]).unwrap();
        let dirty_now = dirty_nodes(&v) + 1;
        v.fsync(file).unwrap();
        assert_eq!(nodes(&v), (2 + dirty + 2, 6), "{mode:?}");
        assert_eq!(v.stats().fsync.would_search.load(Ordering::Relaxed), dirty_now);
        v.fsync(file).unwrap();
        assert_eq!(nodes(&v).1, 6, "nothing changed, nothing written");
    }
}

fn dirty_nodes(v: &Volume) -> u64 {
    v.report().into_iter().find(|(name, _)| *name == "dirty_nodes").unwrap().1
}

/// A clock that does not advance.
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Time {
        Time { secs: 1_700_000_000, nsec: 5 }
    }
}

#[test]
fn every_lookup_mode_gives_the_same_image() {
    let formatted = fresh(96, &MkfsOptions::default()).snapshot();
    let image = |lookup, mode| {
        let dev = Arc::new(MemDevice::from_snapshot(&formatted));
        let opts = MountOptions { fsync_lookup: lookup, fsync_mode: mode, ..quiet() };
        let v = lab::mount(dev.clone(), opts, Arc::new(FixedClock)).unwrap();
        assert_eq!(v.fsync_lookup(), lookup);
        let files: Vec<Ino> = (0..20).map(|i| large(&v, &format!("f{i}"))).collect();
        let mut x = 99_u64;
        for round in 0..300_u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let file = files[(x >> 40) as usize % files.len()];
            v.write(file, (x >> 20) % 5000 * 4096, &[round as u8; 3000]).unwrap();
            match (x >> 50) % 4 {
                0 => v.fsync(file).unwrap(),
                1 => v.fsync(files[round as usize % files.len()]).unwrap(),
                2 if round % 50 == 0 => v.sync().unwrap(),
                _ => {}
            }
        }
        // Not unmounted, to compare the blocks written by fsync rather than by a checkpoint.
        (0..dev.block_count())
            .map(|at| {
                let mut b = [Block::zeroed()];
                dev.read(at, &mut b).unwrap();
                let [b] = b;
                b.0
            })
            .collect::<Vec<_>>()
    };
    for mode in [FsyncMode::Strict, FsyncMode::Posix] {
        let list = image(FsyncLookup::List, mode);
        for lookup in FsyncLookup::ALL {
            let other = image(lookup, mode);
            let differ: Vec<usize> = (0..list.len()).filter(|&i| list[i] != other[i]).collect();
            assert!(differ.is_empty(), "{mode:?}, {lookup:?}: blocks {differ:?}");
        }
    }
}

#[test]
fn reasons_for_a_checkpoint_are_counted() {
    let v = mount(&fresh(96, &MkfsOptions::default()));
    let count = |why| v.stats().fsync.checkpoints(why);
    let file = create(&v, "a");
    v.fsync(file).unwrap();
    v.fsync(Ino::ROOT).unwrap();
    assert_eq!(count(CpReason::NotRegular), 1);
    let dir = v.mkdir(Ino::ROOT, b"dir", 0o755, Owner::default()).unwrap().ino;
    let inside = v.mknod(dir, b"b", FILE, (0, 0), Owner::default()).unwrap().ino;
    v.fsync(inside).unwrap();
    assert_eq!(count(CpReason::NewParent), 1);
    let linked = create(&v, "c");
    v.link(linked, Ino::ROOT, b"d").unwrap();
    v.fsync(linked).unwrap();
    assert_eq!(count(CpReason::Renamed) + count(CpReason::Links), 1);
    v.unlink(Ino::ROOT, b"d").unwrap();
    let after = create(&v, "e");
    v.fsync(after).unwrap();
    assert_eq!(count(CpReason::ParentChanged), 1, "strict mode orders names");
    let old = v.lookup(Ino::ROOT, b"c").unwrap().ino;
    v.write(old, 0, b"more").unwrap();
    v.unlink(Ino::ROOT, b"e").unwrap();
    v.fsync(old).unwrap();
    assert_eq!(count(CpReason::ParentChanged), 1, "irrelevant for a file in the checkpoint");
    v.link(old, dir, b"second").unwrap();
    v.sync().unwrap();
    v.unlink(dir, b"second").unwrap();
    v.fsync(old).unwrap();
    assert_eq!(count(CpReason::Unlinked), 1);
    v.rename(Ino::ROOT, b"dir", Ino::ROOT, b"moved", RenameMode::Replace, Owner::default()).unwrap();
    let below = v.mknod(dir, b"f", FILE, (0, 0), Owner::default()).unwrap().ino;
    v.fsync(below).unwrap();
    assert_eq!(count(CpReason::DirRenamed), 1);
    let all: u64 = v.report().iter().filter(|(name, _)| name.starts_with("fsync_cp_")).map(|(_, n)| n).sum();
    assert_eq!(all, v.stats().fsync_checkpoints.load(Ordering::Relaxed));
}

/// An attribute that was removed before an fsync of another file does not reappear, as in Linux with the
/// option.
#[test]
fn with_fastboot_every_fsync_of_a_changed_file_is_a_checkpoint() {
    let dev = fresh(96, &MkfsOptions::default());
    let options = || MountOptions { background: false, ..MountOptions::default() };
    for fastboot in [false, true] {
        let v = Volume::mount(dev.clone(), MountOptions { fastboot, ..options() }).unwrap();
        let name = format!("file of {fastboot}");
        let (file, other) = (create(&v, &name), create(&v, &format!("other of {fastboot}")));
        v.setxattr(other, b"user.a", b"value", XattrMode::Set).unwrap();
        v.sync().unwrap();
        v.removexattr(other, b"user.a").unwrap();
        let checkpoints = || v.stats().fsync_checkpoints.load(Ordering::Relaxed);
        for n in 0..3 {
            v.write(file, n, b"x").unwrap();
            v.fsync(file).unwrap();
            // An unchanged file needs nothing.
            v.fsync(file).unwrap();
        }
        let expected = if fastboot { 3 } else { 0 };
        assert_eq!((checkpoints(), v.stats().fsync.checkpoints(CpReason::Fastboot)), (expected, expected));
        let copy = Arc::new(MemDevice::from_snapshot(&dev.snapshot()));
        let after = Volume::mount(copy, options()).unwrap();
        assert_eq!(after.getxattr(other, b"user.a").is_ok(), !fastboot);
        v.unmount().unwrap();
    }
}

/// A device with slow flushes that fails to prepare blocks and counts the attempts.
struct Slow(MemDevice, Duration, AtomicU64);

impl BlockDevice for Slow {
    forward!(0: block_count, read, write, write_fua, discard, read_only);

    fn flush(&self) -> io::Result<()> {
        std::thread::sleep(self.1);
        self.0.flush()
    }
    fn prepare(&self, _addr: u64, _count: u64) -> io::Result<()> {
        self.2.fetch_add(1, Ordering::Relaxed);
        Err(io::Error::other("no room for an allocation"))
    }
}

fn slow(time: Duration) -> Slow {
    Slow(MemDevice::from_snapshot(&fresh(96, &MkfsOptions::default()).snapshot()), time, AtomicU64::new(0))
}

#[test]
fn a_device_that_cannot_prepare_blocks_does_not_fail_an_fsync() {
    let v = Volume::mount(Arc::new(slow(Duration::ZERO)), quiet()).unwrap();
    let file = create(&v, "a");
    for i in 0..20 {
        v.write(file, i * 4096, &[1; 4096]).unwrap();
        v.fsync(file).unwrap();
    }
    assert!(!v.is_stopped());
}

#[test]
fn logs_filled_by_fsyncs_are_prepared_even_if_each_is_a_checkpoint() {
    let dev = Arc::new(slow(Duration::ZERO));
    let v = Volume::mount(dev.clone(), quiet()).unwrap();
    let replace = |name: &str| {
        let file = create(&v, name);
        v.write(file, 0, &[1; 5000]).unwrap();
        v.fsync(file).unwrap();
        v.unlink(Ino::ROOT, name.as_bytes()).unwrap();
    };
    (0..20).for_each(|_| replace("a"));
    assert_eq!(v.stats().fsync_checkpoints.load(Ordering::Relaxed), 19);
    assert_eq!(dev.2.load(Ordering::Relaxed), 4, "data and nodes, of files and of directories");
}

/// Blocks of one file in several direct nodes: all data in one write, then all nodes in one.
#[test]
fn an_fsync_writes_all_nodes_of_the_file_at_once() {
    // Up to 923 blocks in the inode, 1018 in each direct node.
    const PLACES: [u64; 4] = [0, 1500, 2600, 3700];
    for (mode, flushes) in [(FsyncMode::Strict, 2), (FsyncMode::Posix, 1)] {
        let dev = Arc::new(CountDevice::new(MemDevice::from_snapshot(
            &fresh(64, &MkfsOptions::default()).snapshot(),
        )));
        let v = Volume::mount(dev.clone(), MountOptions { fsync_mode: mode, ..quiet() }).unwrap();
        let file = create(&v, "f");
        let overwrite = |byte| {
            for at in PLACES {
                assert_eq!(v.write(file, at * 4096, &[byte; 4096]).unwrap(), 4096);
            }
        };
        overwrite(1);
        v.sync().unwrap();
        overwrite(2);
        let before = dev.counts();
        v.fsync(file).unwrap();
        let done = dev.counts() - before;
        assert_eq!((done.writes, done.flushes), (2, flushes), "{mode:?}: data, and nodes");
        assert_eq!(
            done.blocks_written,
            PLACES.len() as u64 + 4,
            "{mode:?}: three direct nodes and the inode"
        );
        v.unmount().unwrap();
    }
}

#[test]
fn threads_that_sync_share_flushes() {
    const EACH: u64 = 25;
    for (mode, alone) in [(FsyncMode::Strict, 2), (FsyncMode::Posix, 1)] {
        for (threads, one_file) in [(1, false), (8, false), (8, true)] {
            let dev = Arc::new(CountDevice::new(slow(Duration::from_millis(5))));
            let v = Volume::mount(dev.clone(), MountOptions { fsync_mode: mode, ..quiet() }).unwrap();
            let shared = create(&v, "shared");
            let of = |i| if one_file { shared } else { create(&v, &format!("f{i}")) };
            let files: Vec<Ino> = (0..threads).map(of).collect();
            v.sync().unwrap();
            let before = dev.counts();
            std::thread::scope(|s| {
                for &file in &files {
                    let v = &v;
                    s.spawn(move || {
                        for i in 0..EACH {
                            v.write(file, i * 4096, &[2; 4096]).unwrap();
                            v.fsync(file).unwrap();
                        }
                    });
                }
            });
            let flushes = (dev.counts() - before).flushes;
            let fsyncs = EACH * threads;
            if threads == 1 {
                assert_eq!(flushes, alone * fsyncs, "{mode:?}");
            } else {
                // Two groups of callers alternate. Each flush completes the fsyncs of one group, but on one file the next group
                // waits for all flushes of the one before.
                let least = if one_file { 1 } else { 2 };
                assert!(
                    flushes * least <= fsyncs,
                    "{mode:?}, {one_file}: {flushes} flushes for {fsyncs} fsyncs"
                );
            }
            v.unmount().unwrap();
            assert_clean(&*dev);
        }
    }
}

#[test]
fn the_lookup_mode_may_change_under_load() {
    let dev = fresh(96, &MkfsOptions::default());
    let v = mount(&dev);
    let files: Vec<Ino> = (0..3).map(|i| large(&v, &format!("f{i}"))).collect();
    std::thread::scope(|s| {
        for &file in &files {
            let v = &v;
            s.spawn(move || {
                for i in 0..200 {
                    v.write(file, i * 37 % 5000 * 4096, &[2; 100]).unwrap();
                    v.fsync(file).unwrap();
                }
            });
        }
        for lookup in FsyncLookup::ALL.into_iter().cycle().take(60) {
            v.set_fsync_lookup(lookup);
            v.sync().unwrap();
        }
    });
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn with_a_journal_an_fsync_fills_the_log_of_its_data_alone() {
    let dev = Arc::new(slow(Duration::ZERO));
    let journal = JournalMode::External(JournalArea::whole(Arc::new(MemDevice::new(2048))));
    let v = Volume::mount(dev.clone(), MountOptions { journal, ..quiet() }).unwrap();
    let file = create(&v, "a");
    for i in 0..20 {
        v.write(file, i * 4096, &[1; 4096]).unwrap();
        v.fsync(file).unwrap();
    }
    assert_eq!(dev.2.load(Ordering::Relaxed), 1);
}
