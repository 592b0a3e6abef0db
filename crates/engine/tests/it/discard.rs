//! When freed segments are discarded: deleted data stays on the device for as long as the rule says, also over unmounts.
use crate::common::{assert_clean, fresh, quiet};
use segno_device::{BlockDevice, FileDevice, HostStorage, MemDevice, OpenOptions};
use segno_engine::lab::{self, Probe};
use segno_engine::options::Discard;
use segno_engine::{Clock, MountOptions, Owner, Time, TrimRange, Volume};
use segno_format::{Block, Ino};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::forward;
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
