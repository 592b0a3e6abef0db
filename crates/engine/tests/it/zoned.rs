//! Zoned volumes: sections are written in order, zones are reset only when nothing durable needs them, and power cuts
//! lose no synced data.
use crate::common::{assert_clean, quiet};
use parking_lot::Mutex;
use segno_clean::policy::POLICIES;
use segno_device::{BlockDevice, MemDevice, MultiDevice, ZoneLimits};
use segno_engine::options::JournalMode;
use segno_engine::{Error, FallocMode, JournalArea, MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_format::sit::LogType;
use segno_mkfs::{Member, MkfsError, MkfsOptions, format};
use segno_testkit::{Call, PauseDevice, Rng, ZoneShape, ZonedDevice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const BLOCK: u64 = 4096;
/// Superblocks, and eight zones of metadata.
const SHAPE: ZoneShape = ZoneShape {
    zones: 42,
    conventional: 9,
    blocks: 512,
    capacity: 512,
    limits: ZoneLimits { open: 8, active: 8 },
};

fn zoned() -> MkfsOptions {
    MkfsOptions {
        zoned: true,
        overprovision_percent: Some(20.0),
        reserved_sections: Some(8),
        ..MkfsOptions::default()
    }
}

fn member(device: Arc<dyn BlockDevice>) -> Member {
    Member { device, path: "zoned".into(), zeroed: true }
}

fn small() -> MountOptions {
    MountOptions {
        cache_bytes: 4 << 20,
        observer: segno_engine::Observer::new(|n| eprintln!("NOTICE {n}")),
        ..quiet()
    }
}

/// A block that identifies its index and version.
fn content(block: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![version as u8; BLOCK as usize];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes[8..16].copy_from_slice(&block.to_le_bytes());
    bytes
}

fn version_of(v: &Volume, ino: Ino, block: u64) -> u64 {
    let mut bytes = vec![0; BLOCK as usize];
    v.read(ino, block * BLOCK, &mut bytes).unwrap();
    let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(version == 0 || bytes == content(block, version), "block {block} is a mixture");
    version
}

fn create(v: &Volume) -> Ino {
    v.mknod(Ino::ROOT, b"file", 0o100_644, (0, 0), Owner::default()).unwrap().ino
}

/// Fills a file to 90 % of the space and overwrites it twice at random, with occasional fsyncs.
fn wear(v: &Volume, synced: impl FnMut(&[u64])) -> (Ino, Vec<u64>) {
    wear_to(v, 90, 97, synced)
}

/// Like `wear`, for the given percentage and number of writes per fsync.
fn wear_to(v: &Volume, percent: u64, every: u64, mut synced: impl FnMut(&[u64])) -> (Ino, Vec<u64>) {
    let ino = create(v);
    let room = v.statfs().bfree;
    // Reserves space for nodes.
    let blocks = (room * percent / 100).min(room - room / 1018 - 8);
    let mut versions: Vec<u64> = Vec::new();
    for block in 0..blocks {
        versions.push(block + 1);
        assert_eq!(v.write(ino, block * BLOCK, &content(block, block + 1)).unwrap(), BLOCK as usize);
    }
    v.fsync(ino).unwrap();
    synced(&versions);
    let mut rng = Rng::new(7);
    for n in 0..2 * blocks {
        let block = rng.below(blocks);
        versions[block as usize] = 1_000_000 + n;
        v.write(ino, block * BLOCK, &content(block, 1_000_000 + n)).unwrap();
        if n % every == 0 {
            v.fsync(ino).unwrap();
            synced(&versions);
        }
    }
    (ino, versions)
}

/// Options, and the device of an external journal, which they use if `with`.
fn journaled(with: bool) -> (MountOptions, Arc<MemDevice>) {
    let journal = Arc::new(MemDevice::new(4096));
    let mode =
        if with { JournalMode::External(JournalArea::whole(journal.clone())) } else { JournalMode::Off };
    (MountOptions { journal: mode, ..small() }, journal)
}

#[test]
fn sections_are_written_in_order_by_every_policy() {
    for (name, with) in POLICIES.iter().flat_map(|p| [(p.example, false), (p.example, true)]) {
        let dev = Arc::new(ZonedDevice::new(SHAPE));
        format(&[member(dev.clone())], &zoned()).unwrap();
        let opts = MountOptions { gc_policy: Some(name.to_owned()), ..journaled(with).0 };
        let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
        let (ino, versions) = wear(&v, |_| {});
        v.unmount().unwrap();
        assert_clean(&*dev);
        crate::common::assert_clean_to_f2fs_tools(&*dev, name);
        let counts = dev.counts();
        assert!(counts.violations == 0 && counts.resets > 20, "{name}, journal {with}: {counts:?}");
        let v = Volume::mount(dev.clone(), opts).unwrap();
        for (block, &version) in (0..).zip(&versions) {
            assert_eq!(version_of(&v, ino, block), version, "{name}, journal {with}");
        }
    }
}

/// A zone freed partly by each of two checkpoints is reset by neither.
#[test]
fn unmounting_closes_idle_zones() {
    let shape = ZoneShape { zones: 37, conventional: 5, blocks: 1024, capacity: 1024, ..SHAPE };
    let dev = Arc::new(ZonedDevice::new(shape));
    format(&[member(dev.clone())], &zoned()).unwrap();
    let v = Volume::mount(dev.clone(), small()).unwrap();
    let ino = create(&v);
    for blocks in [0..1024, 0..512, 512..1024] {
        for block in blocks {
            v.write(ino, block * BLOCK, &content(block, 1)).unwrap();
        }
        v.sync().unwrap();
    }
    v.unmount().unwrap();
    let was = dev.counts();
    let _v = Volume::mount(dev.clone(), small()).unwrap();
    let is = dev.counts();
    assert_eq!((was.resets, was.finishes), (is.resets, is.finishes));
}

/// One section per kind of dirty block would exceed the free space; the rest of the logs' sections is enough.
#[test]
fn few_dirty_blocks_find_space_in_large_sections() {
    let shape = ZoneShape { zones: 37, conventional: 5, blocks: 1024, capacity: 1024, ..SHAPE };
    let dev = Arc::new(ZonedDevice::new(shape));
    let how = MkfsOptions { reserved_sections: Some(6), ..zoned() };
    format(&[member(dev.clone())], &how).unwrap();
    let v = Volume::mount(dev.clone(), small()).unwrap();
    wear(&v, |_| {});
    v.unmount().unwrap();
    assert_clean(&*dev);
    assert_eq!(dev.counts().violations, 0);
}

/// Each thread creates a file and writes to it; afterwards the volume must be consistent.
fn side_by_side(cache_bytes: usize, threads: u64, write: impl Fn(&Volume, Ino, &mut Rng) + Sync) {
    [false, true]
        .into_iter()
        .for_each(|journal| side_by_side_on(journaled(journal).0, cache_bytes, threads, &write));
}

fn side_by_side_on(
    opts: MountOptions,
    cache_bytes: usize,
    threads: u64,
    write: &(impl Fn(&Volume, Ino, &mut Rng) + Sync),
) {
    let dev = Arc::new(ZonedDevice::new(SHAPE));
    format(&[member(dev.clone())], &zoned()).unwrap();
    // Another thread may run between the allocation of blocks and their write.
    let slow = PauseDevice::before_each(dev.clone(), |_| std::thread::yield_now());
    let v = Volume::mount(Arc::new(slow), MountOptions { cache_bytes, ..opts }).unwrap();
    std::thread::scope(|s| {
        for thread in 0..threads {
            let v = &v;
            s.spawn(move || {
                let name = format!("of {thread}.db");
                let made = v.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default());
                write(v, made.unwrap().ino, &mut Rng::new(thread + 1));
            });
        }
    });
    v.unmount().unwrap();
    assert_clean(&*dev);
    assert_eq!(dev.counts().violations, 0);
}

#[test]
fn concurrent_writers_keep_the_order() {
    side_by_side(4 << 20, 4, |v, ino, rng| {
        for n in 0..2_000 {
            v.write(ino, rng.below(1_500) * BLOCK, &[n as u8; 9_000]).unwrap();
            if n % 50 == 0 {
                v.fsync(ino).unwrap();
            }
        }
    });
}

/// Blocks that are no pages: the content of an inode, and copies of a range that moves.
#[test]
fn concurrent_changes_of_layout_keep_the_order() {
    side_by_side(16 << 20, 4, |v, ino, rng| {
        v.write(ino, 0, &[1; 60 * BLOCK as usize]).unwrap();
        for n in 0..100 {
            v.fallocate(ino, FallocMode::CollapseRange, rng.below(59) * BLOCK, BLOCK).unwrap();
            v.fallocate(ino, FallocMode::InsertRange, rng.below(58) * BLOCK, BLOCK).unwrap();
            v.write(ino, rng.below(60) * BLOCK, &[n; BLOCK as usize]).unwrap();
            let name = format!("{ino} {n}.db");
            let made = v.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default());
            let small = made.unwrap().ino;
            v.write(small, 0, &[n; 100]).unwrap();
            v.write(small, 5000, &[n; 100]).unwrap();
            if n % 10 == 0 {
                v.fsync(small).unwrap();
            }
        }
    });
}

/// Writes in progress are counted before they dirty pages, so that together they do not exceed the free space.
#[test]
fn concurrent_large_writes_on_a_nearly_full_volume_find_space() {
    let room = OnceLock::new();
    side_by_side(64 << 20, 6, |v, ino, rng| {
        let blocks = *room.get_or_init(|| v.statfs().bfree * 9 / 10 / 6);
        let piece = blocks.min(512);
        let bytes = vec![ino.0 as u8; (piece * BLOCK) as usize];
        let last = blocks - piece;
        for n in 0..100 {
            let at = if n < 2 { n * last } else { rng.below(last + 1) };
            assert_eq!(v.write(ino, at * BLOCK, &bytes).unwrap(), bytes.len());
            if n % 10 == 0 {
                v.fsync(ino).unwrap();
            }
        }
    });
}

/// A log that moves to another zone fills its last one first, whatever their order.
#[test]
fn large_writes_use_no_more_zones_than_there_are_logs() {
    [false, true].into_iter().for_each(large_writes);
}

fn large_writes(journal: bool) {
    let limits = ZoneLimits { open: 6, active: 6 };
    let dev = Arc::new(ZonedDevice::new(ZoneShape { limits, conventional: 8, ..SHAPE }));
    format(&[member(dev.clone())], &zoned()).unwrap();
    let v = Volume::mount(dev.clone(), journaled(journal).0).unwrap();
    for n in 0..300 {
        let name = format!("a name that takes some room, number {n}");
        v.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap();
    }
    let piece = vec![1; 100 * BLOCK as usize];
    let cold = v.mknod(Ino::ROOT, b"film.mp4", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    v.write(cold, 0, &piece).unwrap();
    v.sync().unwrap();
    let ino = create(&v);
    let blocks = v.statfs().bfree * 2 / 3;
    let mut rng = Rng::new(1);
    for n in 0..blocks / 100 * 4 {
        let at = if n < blocks / 100 { n * 100 } else { rng.below(blocks - 100) };
        assert_eq!(v.write(ino, at * BLOCK, &piece).unwrap(), piece.len());
    }
    v.unmount().unwrap();
    assert_clean(&*dev);
    assert_eq!(dev.counts().violations, 0);
}

#[test]
fn metadata_on_a_device_of_its_own() {
    for gap_blocks in [0, 4096] {
        let zones = Arc::new(ZonedDevice::new(ZoneShape { zones: 33, conventional: 0, ..SHAPE }));
        let members = [member(Arc::new(MemDevice::new(8 * 512 + gap_blocks))), member(zones.clone())];
        let layout = format(&members, &MkfsOptions { gap_blocks, ..zoned() }).unwrap().layout.geo;
        assert_eq!((layout.main_blkaddr, layout.section_count), (8 * 512, 33));
        let [first, second] = members;
        let shares = vec![(first.device, 8 * 512), (second.device, 33 * 512)];
        let joined = Arc::new(MultiDevice::of_volume(shares).unwrap());
        let journal = if gap_blocks > 0 { JournalMode::On } else { JournalMode::Off };
        let v = Volume::mount(joined.clone(), MountOptions { journal, ..small() }).unwrap();
        wear(&v, |_| {});
        assert_eq!(v.stats().journal_commits.load(Ordering::Relaxed) > 100, gap_blocks > 0);
        v.unmount().unwrap();
        assert_clean(&*joined);
        assert_eq!(zones.counts().violations, 0);
    }
}

/// An empty zone may read as junk, and needs no clearing.
#[test]
fn reformatting_resets_zones_without_clearing_them() {
    let zones = Arc::new(ZonedDevice::new(ZoneShape { zones: 33, conventional: 0, ..SHAPE }));
    let used = |device: Arc<dyn BlockDevice>| Member { zeroed: false, ..member(device) };
    let members = [used(Arc::new(MemDevice::new(8 * 512))), used(zones.clone())];
    for force in [false, true] {
        let logs = format(&members, &MkfsOptions { force, ..zoned() }).unwrap().layout;
        let start = |log| u64::from(logs.curseg_start(log).0) - 8 * 512;
        let expected = [(start(LogType::HotNode), 1), (start(LogType::HotData), 1)];
        let written = zones.zones().unwrap().into_iter().filter(|z| z.pointer > z.start);
        assert_eq!(written.map(|z| (z.start, z.pointer - z.start)).collect::<Vec<_>>(), expected);
    }
    assert_eq!(zones.counts().violations, 0);
}

#[test]
fn unfit_devices_are_refused() {
    let plain = MkfsOptions { zoned: false, ..zoned() };
    let refused =
        |shape, opts: &MkfsOptions| format(&[member(Arc::new(ZonedDevice::new(shape)))], opts).unwrap_err();
    assert!(refused(SHAPE, &plain).to_string().contains("-m"));
    assert!(refused(ZoneShape { capacity: 500, ..SHAPE }, &zoned()).to_string().contains("capacity"));
    assert!(refused(ZoneShape { conventional: 3, ..SHAPE }, &zoned()).to_string().contains("metadata"));
    let e = format(&[member(Arc::new(MemDevice::new(42 * 512)))], &zoned()).unwrap_err();
    assert!(matches!(e, MkfsError::Zoned { .. }), "{e}");
    let limits = ZoneLimits { open: 5, active: 0 };
    let dev = Arc::new(ZonedDevice::new(ZoneShape { limits, ..SHAPE }));
    format(&[member(dev.clone())], &zoned()).unwrap();
    assert!(matches!(Volume::mount(dev, small()), Err(Error::Incompatible(..))));
}

/// A state after a power cut, and the versions that were synced before.
type Cut = (ZonedDevice, Vec<u64>);

/// Power cuts before every n-th command.
struct CutRecorder {
    dev: Arc<ZonedDevice>,
    every: u64,
    commands: AtomicU64,
    synced: Mutex<Vec<u64>>,
    taken: Mutex<Vec<Cut>>,
}

impl CutRecorder {
    fn see(&self, call: Call<'_>) {
        if matches!(call, Call::Read | Call::Discard) {
            return;
        }
        let n = self.commands.fetch_add(1, Ordering::Relaxed);
        let synced = self.synced.lock().clone();
        if !n.is_multiple_of(self.every) || synced.is_empty() {
            return;
        }
        let mut rng = Rng::new(n);
        let left = self.dev.after_cut(|unflushed| match n / self.every % 3 {
            0 => 0,
            1 => unflushed,
            _ => rng.below(unflushed + 1),
        });
        self.taken.lock().push((left, synced));
    }
}

/// Wears a volume and mounts the states after power cuts. Conventional zones keep every write in order; sequential
/// zones keep flushed writes and a prefix of the rest.
fn cuts(
    shape: ZoneShape,
    how: &MkfsOptions,
    every: u64,
    wear: impl Fn(&Volume, &CutRecorder) -> Ino,
) -> usize {
    let dev = Arc::new(ZonedDevice::new(shape));
    format(&[member(dev.clone())], how).unwrap();
    let (commands, synced, taken) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
    let tap = Arc::new(CutRecorder { dev: dev.clone(), every, commands, synced, taken });
    let sees = tap.clone();
    let watched = PauseDevice::before_each(dev.clone(), move |call| sees.see(call));
    let v = Volume::mount(Arc::new(watched), small()).unwrap();
    let ino = wear(&v, &tap);
    assert_eq!(dev.counts().violations, 0);
    let taken = std::mem::take(&mut *tap.taken.lock());
    let found = taken.len();
    for (i, (dev, synced)) in taken.into_iter().enumerate() {
        let dev = Arc::new(dev);
        let v = Volume::mount(dev.clone(), small()).unwrap_or_else(|e| panic!("cut {i}: {e}"));
        for (block, &version) in (0..).zip(&synced) {
            let found = version_of(&v, ino, block);
            assert!(found >= version, "cut {i}: block {block} has version {found}, {version} was synced");
        }
        // The recovered volume must accept writes.
        v.write(ino, 0, &content(0, 9_000_000)).unwrap();
        v.fsync(ino).unwrap();
        v.unmount().unwrap();
        assert_clean(&*dev);
        assert_eq!(dev.counts().violations, 0, "cut {i}");
    }
    found
}

#[test]
fn a_cut_keeps_all_synced_data() {
    let found =
        cuts(SHAPE, &zoned(), 31, |v, tap| wear(v, |versions| versions.clone_into(&mut tap.synced.lock())).0);
    assert!(found > 40, "{found} cuts");
}

/// With hardly any free section, recovery must use the sections of the logs, and the device allows only as
/// many open and active zones as there are logs.
#[test]
fn a_cut_of_a_full_volume_with_a_small_reserve_is_recovered() {
    for (segments, every) in [(1, 3), (2, 40)] {
        let blocks = 512 * segments;
        let limits = ZoneLimits { open: 6, active: 6 };
        let shape = ZoneShape { zones: 42, conventional: 9, blocks, capacity: blocks, limits };
        let how = MkfsOptions { overprovision_percent: Some(25.0), reserved_sections: Some(3), ..zoned() };
        let least = AtomicU64::new(u64::MAX);
        let found = cuts(shape, &how, 173, |v, tap| {
            let synced = |versions: &[u64]| {
                versions.clone_into(&mut tap.synced.lock());
                let free = v.report().into_iter().find(|(name, _)| *name == "free_sections").unwrap().1;
                least.fetch_min(free, Ordering::Relaxed);
            };
            wear_to(v, 100, every, synced).0
        });
        let least = least.load(Ordering::Relaxed);
        assert!(found > 40 && least < 6, "{found} cuts, at least {least} free sections");
    }
}
