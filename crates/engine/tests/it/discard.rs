//! When freed segments are discarded: deleted data stays on the device for the time of the rule, also over
//! unmounts.
use crate::common::{assert_clean, fresh, quiet};
use segno_device::{BlockDevice, FileDevice, HostStorage, MemDevice, OpenOptions};
use segno_engine::lab::{self, Probe};
use segno_engine::options::{Discard, JournalMode};
use segno_engine::{Clock, MountOptions, Owner, Time, TrimRange, Volume};
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use segno_format::superblock::RawSuperblock;
use segno_format::{Block, Ino};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::{f2fs_tools, forward};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MIB: usize = 1 << 20;
const HOUR: u64 = 60 * 60;

/// Uptime in seconds, set by the test.
#[derive(Default)]
struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time { secs: 1_700_000_000, nsec: 0 }
    }
    fn uptime(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

/// A volume that is mounted and unmounted while hours pass.
struct Rig {
    dev: Arc<MemDevice>,
    clock: Arc<ManualClock>,
    rule: Discard,
    mounted: Mutex<Arc<Volume>>,
}

impl Rig {
    fn new(rule: Discard) -> Self {
        let (dev, clock) = (fresh(128, &MkfsOptions::default()), Arc::<ManualClock>::default());
        let mounted = Mutex::new(mount(&dev, &clock, rule));
        Self { dev, clock, rule, mounted }
    }

    fn volume(&self) -> Arc<Volume> {
        self.mounted.lock().unwrap().clone()
    }

    /// Writes a file of 8 MiB that consists of one byte.
    fn create(&self, byte: u8) {
        let v = self.volume();
        let ino = v.mknod(Ino::ROOT, &[byte], 0o100_644, (0, 0), Owner::default()).unwrap().ino;
        assert_eq!(v.write(ino, 0, &vec![byte; 8 * MIB]).unwrap(), 8 * MIB);
        Probe(&v).checkpoint().unwrap();
    }

    fn delete(&self, byte: u8) {
        self.volume().unlink(Ino::ROOT, &[byte]).unwrap();
        Probe(&self.volume()).checkpoint().unwrap();
    }

    fn remount(&self) {
        self.volume().unmount().unwrap();
        assert_clean(&*self.dev);
        *self.mounted.lock().unwrap() = mount(&self.dev, &self.clock, self.rule);
    }

    fn hours_pass(&self, hours: u64) {
        self.clock.0.fetch_add(hours * HOUR, Ordering::Relaxed);
        Probe(&self.volume()).tick().unwrap();
    }

    /// Whole MiB of the device that consist of this byte.
    fn mib_of(&self, byte: u8) -> usize {
        let mut blocks = vec![Block::zeroed(); self.dev.block_count() as usize];
        self.dev.read(0, &mut blocks).unwrap();
        blocks.iter().filter(|b| b.0.iter().all(|&b| b == byte)).count() * 4096 / MIB
    }
}

fn mount(dev: &Arc<MemDevice>, clock: &Arc<ManualClock>, discard: Discard) -> Arc<Volume> {
    lab::mount(dev.clone(), MountOptions { discard, ..quiet() }, clock.clone()).unwrap()
}

#[test]
fn by_default_deleted_data_stays_for_a_day_of_mounted_time_over_unmounts() {
    let rig = Rig::new(MountOptions::default().discard);
    rig.create(b'a');
    rig.hours_pass(1);
    rig.delete(b'a');
    rig.remount();
    assert_eq!(rig.mib_of(b'a'), 8, "after the unmount");
    rig.hours_pass(23);
    rig.remount();
    assert_eq!(rig.mib_of(b'a'), 8, "after 23 hours");
    rig.hours_pass(1);
    assert!(rig.mib_of(b'a') <= 1, "{} MiB are left after 24 hours", rig.mib_of(b'a'));
    rig.remount();
}

#[test]
fn with_a_size_the_newest_deleted_data_stays_however_old() {
    let rig = Rig::new(Discard::AfterBytes(10 << 20));
    for byte in [b'a', b'b'] {
        rig.create(byte);
    }
    rig.delete(b'a');
    rig.hours_pass(1000);
    assert_eq!(rig.mib_of(b'a'), 8);
    rig.remount();
    rig.delete(b'b');
    rig.hours_pass(0);
    assert!(rig.mib_of(b'a') <= 3, "{} MiB of the older file are left", rig.mib_of(b'a'));
    assert_eq!(rig.mib_of(b'b'), 8);
}

#[test]
fn without_discards_deleted_data_stays_until_a_trim() {
    let rig = Rig::new(Discard::Never);
    rig.create(b'a');
    rig.delete(b'a');
    rig.hours_pass(1000);
    rig.remount();
    assert_eq!(rig.mib_of(b'a'), 8);
    rig.volume().trim(TrimRange { start: 0, len: u64::MAX, min_len: 0 }).unwrap();
    assert!(rig.mib_of(b'a') <= 1, "{} MiB are left after the trim", rig.mib_of(b'a'));
}

#[test]
fn a_segment_that_was_used_again_waits_for_its_full_time() {
    let rig = Rig::new(Discard::DAY);
    rig.create(b'a');
    rig.delete(b'a');
    rig.hours_pass(20);
    // Twice the free space, so that segments of the first file are used again.
    for bytes in [b'b'..=b'g', b'h'..=b'm'] {
        bytes.clone().for_each(|byte| rig.create(byte));
        bytes.for_each(|byte| rig.delete(byte));
    }
    assert!(rig.mib_of(b'a') < 8, "no segment was used again");
    let left = || (b'h'..=b'm').map(|byte| rig.mib_of(byte)).sum::<usize>();
    rig.hours_pass(4);
    assert_eq!(left(), 48, "of those deleted four hours ago");
    rig.hours_pass(20);
    assert!(left() <= 2, "{} MiB are left a day later", left());
}

#[test]
fn a_discarded_segment_is_not_discarded_again_by_the_next_mount() {
    let rig = Rig::new(Discard::NOW);
    rig.create(b'a');
    rig.delete(b'a');
    let discarded = |rig: &Rig| rig.volume().stats().discards.load(Ordering::Relaxed);
    assert!(discarded(&rig) >= 4, "{} segments", discarded(&rig));
    // Any change stores the SIT block that all of them share.
    rig.create(b'b');
    rig.remount();
    rig.hours_pass(1);
    assert_eq!(discarded(&rig), 0);
}

/// Blocks of the main area that have content, valid blocks, and whether the checkpoint is marked as trimmed.
fn content(dev: &MemDevice) -> (usize, usize, bool) {
    let mut blocks = vec![Block::zeroed(); dev.block_count() as usize];
    dev.read(0, &mut blocks).unwrap();
    let geo = RawSuperblock::from_block(&blocks[0].0).parse(0).unwrap().geo;
    let packs = [0, 1].map(|pack| *blocks[geo.pack_addr(pack).0 as usize].view::<RawCheckpoint>());
    let newest = packs.iter().max_by_key(|pack| pack.checkpoint_ver.get()).unwrap();
    let main = &blocks[geo.main_blkaddr as usize..geo.block_count as usize];
    let filled = main.iter().filter(|b| b.0.iter().any(|&b| b != 0)).count();
    (filled, newest.valid_block_count.get() as usize, newest.flags().contains(CpFlags::TRIMMED))
}

/// The state of the checkpoint as fsck.f2fs prints it.
fn state(dev: &MemDevice) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    f2fs_tools::copy(dev, 0..dev.block_count(), &path).unwrap();
    let said = f2fs_tools::fsck(&path).unwrap().output;
    said.lines().find(|line| line.contains("checkpoint state")).unwrap().to_owned()
}

/// A volume on a device full of something else, with room for a journal.
fn on_used_device(trimmed: bool) -> Arc<MemDevice> {
    let dev = Arc::new(MemDevice::new(192 * 256));
    dev.write(0, &vec![Block([0x5a; 4096]); 128 * 256].iter().collect::<Vec<_>>()).unwrap();
    let member = Member { device: dev.clone(), path: String::new(), zeroed: false };
    segno_mkfs::format(
        &[member],
        &MkfsOptions { discard: Some(trimmed), force: true, gap_blocks: 64 * 256, ..MkfsOptions::default() },
    )
    .unwrap();
    dev
}

/// Files, some of them deleted, and a part of one written twice.
fn change(v: &Volume, bytes: std::ops::Range<u8>) {
    let mut inodes = Vec::new();
    for byte in bytes.clone() {
        let ino = v.mknod(Ino::ROOT, &[byte], 0o100_644, (0, 0), Owner::default()).unwrap().ino;
        v.write(ino, 0, &vec![byte; MIB]).unwrap();
        inodes.push(ino);
    }
    v.sync().unwrap();
    v.write(inodes[0], 40_000, &[1; 100_000]).unwrap();
    bytes.step_by(3).skip(1).for_each(|byte| v.unlink(Ino::ROOT, &[byte]).unwrap());
}

#[test]
fn an_unmount_that_has_discarded_all_free_blocks_says_so() {
    for formatted_trimmed in [true, false] {
        let dev = on_used_device(formatted_trimmed);
        assert_eq!(content(&dev).2, formatted_trimmed);
        for round in 0..3 {
            let v = Volume::mount(dev.clone(), MountOptions { discard: Discard::NOW, ..quiet() }).unwrap();
            change(&v, round * 10 + 1..round * 10 + 10);
            Probe(&v).checkpoint().unwrap();
            assert!(!content(&dev).2, "while it is mounted");
            v.unmount().unwrap();
            assert_clean(&*dev);
            let (filled, valid, trimmed) = content(&dev);
            assert!(
                trimmed && filled <= valid,
                "round {round}: {filled} blocks have content, {valid} are valid"
            );
        }
        assert!(state(&dev).contains(" trimmed "), "{}", state(&dev));
    }
}

#[test]
fn an_unmount_that_keeps_something_does_not_say_that_all_is_discarded() {
    let journal = MountOptions { journal: JournalMode::On, discard: Discard::NOW, ..quiet() };
    let keeps = [Discard::DAY, Discard::AfterBytes(1 << 20), Discard::Never];
    let keeps = keeps.map(|discard| MountOptions { discard, ..quiet() });
    for options in keeps.into_iter().chain([journal]) {
        let (dev, rule) = (on_used_device(true), options.discard);
        let v = Volume::mount(dev.clone(), options).unwrap();
        change(&v, 1..10);
        v.unmount().unwrap();
        let (filled, valid, trimmed) = content(&dev);
        assert!(!trimmed && filled > valid, "{rule:?}: {filled} blocks have content, {valid} are valid");
        assert!(state(&dev).contains(" unmount") && !state(&dev).contains("trimmed"), "{}", state(&dev));
    }
}

#[test]
fn a_preallocated_image_keeps_its_storage_unless_discards_are_requested() {
    for (rule, kept) in [(Discard::Auto, true), (Discard::DAY, true), (Discard::NOW, false)] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, vec![0; 128 * MIB]).unwrap();
        let allocated = || path.metadata().unwrap().blocks() * 512;
        assert!(allocated() >= 128 * MIB as u64);
        let dev: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(&path, OpenOptions::default()).unwrap());
        let member = Member { device: dev.clone(), path: String::new(), zeroed: true };
        segno_mkfs::format(&[member], &MkfsOptions { discard: Some(false), ..MkfsOptions::default() })
            .unwrap();
        let v = Volume::mount(dev, MountOptions { discard: rule, ..quiet() }).unwrap();
        let ino = v.mknod(Ino::ROOT, b"a", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
        v.write(ino, 0, &vec![b'a'; 8 * MIB]).unwrap();
        Probe(&v).checkpoint().unwrap();
        v.unlink(Ino::ROOT, b"a").unwrap();
        v.unmount().unwrap();
        assert_eq!(allocated() >= 128 * MIB as u64, kept, "{rule:?}: {} bytes", allocated());
    }
}

/// An image file on a host with little space.
struct Hosted {
    inner: Arc<MemDevice>,
    storage: HostStorage,
}

impl BlockDevice for Hosted {
    forward!(inner: block_count, read, write, write_fua, flush, discard, read_only);

    fn host_storage(&self) -> io::Result<Option<HostStorage>> {
        Ok(Some(self.storage))
    }
}

#[test]
fn df_of_a_sparse_image_shows_no_more_than_its_host_can_store() {
    let inner = fresh(128, &MkfsOptions::default());
    let alone = Volume::mount(inner.clone(), quiet()).unwrap().statfs();
    let used = alone.blocks - alone.bfree;
    for (allocated, available, free) in
        [(0, 0, 0), (0, 1_000, 1_000), (10, 1_000_000, alone.bfree), (inner.block_count(), 0, alone.bfree)]
    {
        let storage = HostStorage { allocated, available };
        let v = Volume::mount(Arc::new(Hosted { inner: inner.clone(), storage }), quiet()).unwrap();
        let found = v.statfs();
        assert_eq!((found.bavail, found.bfree), (free, alone.bfree), "{storage:?}, {used} blocks in use");
    }
}
