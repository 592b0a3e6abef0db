//! Checksums of data in the journal: a commit takes one flush, and is accepted only if the data it names arrived.
use super::{FILE, MIB, Rig, format};
use crate::common::{fresh, quiet, unmount_and_pin};
use segno_device::{BlockDevice, MemDevice};
use segno_engine::options::JournalMode;
use segno_engine::{FallocMode, JournalArea, MountOptions, Owner, Volume};
use segno_format::{Block, Ino};
use segno_mkfs::MkfsOptions;
use segno_testkit::CountDevice;
use std::sync::Arc;

const BLOCK: usize = 4096;
/// Pages too many for checksums.
const MUCH: usize = 300;

/// Counts the flushes of a step.
struct Flushes {
    dev: Arc<CountDevice<MemDevice>>,
    v: Arc<Volume>,
}

impl Flushes {
    fn mount(volume: &MemDevice, journal: JournalMode) -> Self {
        let dev = Arc::new(CountDevice::new(MemDevice::from_snapshot(&volume.snapshot())));
        let v = Volume::mount(dev.clone(), MountOptions { journal, ..quiet() }).unwrap();
        Self { dev, v }
    }
    fn of<T>(&self, step: impl FnOnce() -> T) -> u64 {
        let before = self.dev.counts();
        step();
        (self.dev.counts() - before).flushes
    }
    fn fsync(&self, ino: Ino) -> u64 {
        self.of(|| self.v.fsync(ino).unwrap())
    }
    fn file(&self) -> Ino {
        self.v.mknod(Ino::ROOT, b"f", FILE, (0, 0), Owner::default()).unwrap().ino
    }
}

#[test]
fn an_fsync_takes_one_flush() {
    let rig = Flushes::mount(&format(), JournalMode::On);
    let ino = rig.file();
    assert_eq!(rig.fsync(ino), 1, "names alone");
    for round in 0..4 {
        rig.v.write(ino, round * 40_000, &[round as u8; 40_000]).unwrap();
        assert_eq!(rig.fsync(ino), 1, "data");
    }
    rig.v.write(ino, 0, &vec![9; MUCH * BLOCK]).unwrap();
    assert_eq!(rig.fsync(ino), 2, "much data is flushed in front of the records");
    rig.v.fallocate(ino, FallocMode::CollapseRange, 0, BLOCK as u64).unwrap();
    assert_eq!(rig.fsync(ino), 2, "and so is what was copied to move it");
    assert_eq!(rig.fsync(ino), 0, "nothing was done");
}

#[test]
fn an_external_journal_is_written_after_the_data() {
    let journal = Arc::new(CountDevice::new(MemDevice::new(8 * MIB)));
    let rig = Flushes::mount(
        &fresh(96, &MkfsOptions::default()),
        JournalMode::External(JournalArea::whole(journal.clone())),
    );
    let ino = rig.file();
    rig.v.write(ino, 0, &[1; 40_000]).unwrap();
    let before = journal.counts();
    assert_eq!(rig.fsync(ino), 1);
    assert_eq!((journal.counts() - before).flushes, 1);
}

/// Overwrites a file's block on the device, as if its write had been lost in a power cut.
fn lose(rig: &Rig, ino: Ino, block: u64) {
    let inside = |e: &&segno_engine::Extent| (e.file_block..e.file_block + e.len).contains(&block);
    let extent = rig.v.extents(ino).unwrap().iter().find(inside).cloned().unwrap();
    let mut other = Block::zeroed();
    other.0.fill(0x55);
    let at = u64::from(extent.addr) + block - extent.file_block;
    rig.dev.write(at, &[&other]).unwrap();
}

#[test]
fn a_commit_with_lost_data_is_not_accepted() {
    for lost in [0, 4, 9] {
        let mut rig = Rig::new();
        rig.file("before", &[1; 10 * BLOCK]);
        rig.v.sync().unwrap();
        let f = rig.file("f", &[2; 10 * BLOCK]);
        rig.v.fsync(f).unwrap();
        lose(&rig, f, lost);
        rig.crash();
        assert!(!rig.has("f"), "block {lost}");
        assert_eq!(rig.content("before"), [1; 10 * BLOCK]);
        rig.judge();
    }
}

/// Data older than a durable group is durable: reads detect later damage.
#[test]
fn durable_data_is_not_verified_again() {
    let mut rig = Rig::new();
    let f = rig.file("f", &[2; 10 * BLOCK]);
    rig.v.fsync(f).unwrap();
    rig.file("g", &[3; 10]);
    rig.v.sync().unwrap();
    lose(&rig, f, 3);
    rig.crash();
    assert!(rig.has("f") && rig.has("g"));
    assert_eq!(rig.content("g"), [3; 10]);
}

/// A checksum would become invalid.
#[test]
fn data_overwritten_in_place_has_no_checksum() {
    let mut rig = Rig::new();
    let f = rig.file("f", &[1; 10 * BLOCK]);
    unmount_and_pin(&rig.v, &*rig.dev, f);
    rig.v = Volume::mount(rig.dev.clone(), rig.opts.clone()).unwrap();
    // These blocks get addresses now, and the last commit before the crash names them.
    rig.v.write(f, 10 * BLOCK as u64, &[2; 4 * BLOCK]).unwrap();
    rig.v.fsync(f).unwrap();
    rig.v.write(f, 12 * BLOCK as u64, &[3; BLOCK]).unwrap();
    rig.v.extents(f).unwrap();
    rig.crash();
    let expected = [vec![1; 10 * BLOCK], vec![2; 2 * BLOCK], vec![3; BLOCK], vec![2; BLOCK]].concat();
    assert!(rig.content("f") == expected);
}
