//! Cleaning: a nearly full volume keeps accepting writes, and all space is free again at the end.
use crate::common::{assert_clean, assert_clean_to_f2fs_tools, fresh, quiet};
use segno_clean::policy::POLICIES;
use segno_device::MemDevice;
use segno_engine::lab::Probe;
use segno_engine::options::{AllocMode, Discard};
use segno_engine::{Background, Error, FallocMode, GcMode, MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_mkfs::MkfsOptions;
use segno_testkit::{CrashLog, CrashPlan, CrashStates, RecordDevice, Rng};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const BLOCK: u64 = 4096;
/// A file of the data set.
const FILE_BLOCKS: u64 = 1_500;

/// A volume with files whose block contents are known by version.
struct Rig {
    dev: Arc<MemDevice>,
    v: Arc<Volume>,
    opts: MountOptions,
    files: Vec<Ino>,
    versions: Vec<Vec<u32>>,
    next: u32,
}

fn content(file: usize, block: u64, version: u32) -> Vec<u8> {
    let mut bytes = vec![version as u8; BLOCK as usize];
    bytes[..4].copy_from_slice(&version.to_le_bytes());
    bytes[4..8].copy_from_slice(&(block as u32).to_le_bytes());
    bytes[8] = file as u8;
    bytes
}

impl Rig {
    fn new(mib: u64, format: &MkfsOptions, opts: MountOptions) -> Self {
        let dev = fresh(mib, format);
        let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
        Self { dev, v, opts, files: Vec::new(), versions: Vec::new(), next: 0 }
    }
    fn write(&mut self, file: usize, block: u64) {
        self.next += 1;
        let bytes = content(file, block, self.next);
        let n = self.v.write(self.files[file], block * BLOCK, &bytes).unwrap();
        assert_eq!(n, bytes.len());
        self.versions[file][block as usize] = self.next;
    }
    /// Creates files until `percent` of the space is used.
    fn fill(&mut self, percent: u64) {
        let total = self.v.statfs().bfree;
        while self.v.statfs().bfree > total * (100 - percent) / 100 {
            let file = self.files.len();
            let name = format!("file {file}");
            let ino =
                self.v.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap().ino;
            self.files.push(ino);
            self.versions.push(Vec::new());
            for block in 0..FILE_BLOCKS {
                if self.v.statfs().bfree <= total * (100 - percent) / 100 {
                    break;
                }
                self.versions[file].push(0);
                self.write(file, block);
            }
        }
    }
    fn overwrite(&mut self, rng: &mut Rng, blocks: u64) {
        for _ in 0..blocks {
            let file = rng.below(self.files.len() as u64) as usize;
            let len = self.versions[file].len() as u64;
            if len > 0 {
                self.write(file, rng.below(len));
            }
        }
    }
    fn verify(&self) {
        let mut bytes = vec![0; BLOCK as usize];
        for (file, versions) in self.versions.iter().enumerate() {
            for (block, &version) in versions.iter().enumerate() {
                self.v.read(self.files[file], block as u64 * BLOCK, &mut bytes).unwrap();
                assert!(bytes == content(file, block as u64, version), "file {file} block {block}");
            }
        }
    }
    fn remount(&mut self) {
        self.v.unmount().unwrap();
        assert_clean(&*self.dev);
        self.v = Volume::mount(self.dev.clone(), self.opts.clone()).unwrap();
    }
    fn delete_all(&mut self) {
        for file in 0..self.files.len() {
            self.v.unlink(Ino::ROOT, format!("file {file}").as_bytes()).unwrap();
        }
        (self.files, self.versions) = (Vec::new(), Vec::new());
    }
    /// Blocks written to the device per block written by the caller.
    fn amplification(&self) -> f64 {
        let stats: std::collections::HashMap<_, _> = self.v.stats().snapshot().into_iter().collect();
        let written = ["data_blocks", "gc_data_blocks", "dent_blocks", "node_blocks", "meta_blocks"];
        written.iter().map(|n| stats[n]).sum::<u64>() as f64 / (stats["user_bytes"] / BLOCK) as f64
    }
}

fn small_cache() -> MountOptions {
    MountOptions { cache_bytes: 8 << 20, ..quiet() }
}

/// Fills a volume, overwrites it `rounds` times in random order, and empties it. Returns the worst write
/// amplification.
fn wear(mib: u64, percent: u64, rounds: u64, format: &MkfsOptions, opts: MountOptions) -> f64 {
    let mut rig = Rig::new(mib, format, opts);
    rig.v.sync().unwrap();
    let empty = rig.v.statfs();
    rig.fill(percent);
    let mut rng = Rng::new(0x5E60_00C5);
    let mut worst: f64 = 0.0;
    for _ in 0..rounds {
        rig.overwrite(&mut rng, mib * 256);
        rig.verify();
        worst = worst.max(rig.amplification());
        rig.remount();
    }
    rig.verify();
    rig.delete_all();
    rig.v.sync().unwrap();
    assert_eq!(rig.v.statfs(), empty);
    rig.remount();
    worst
}

#[test]
fn a_nearly_full_volume_accepts_writes() {
    let worst = wear(80, 95, 10, &MkfsOptions::default(), small_cache());
    assert!(worst < 2.0, "{worst} blocks written for each block");
}

#[test]
fn a_nearly_full_volume_accepts_writes_without_ssr() {
    let opts = MountOptions { mode: AllocMode::Lfs, ..small_cache() };
    let worst = wear(80, 95, 10, &MkfsOptions::default(), opts);
    assert!(worst < 3.0, "{worst} blocks written for each block");
}

#[test]
fn a_full_volume_accepts_overwrites() {
    let worst = wear(128, 100, 3, &MkfsOptions::default(), small_cache());
    assert!(worst < 2.0, "{worst} blocks written for each block");
}

#[test]
fn a_nearly_full_volume_of_large_sections_accepts_writes() {
    for mode in [AllocMode::Adaptive, AllocMode::Lfs] {
        let format = MkfsOptions { segs_per_sec: 4, ..MkfsOptions::default() };
        let worst = wear(400, 95, 2, &format, MountOptions { mode, ..small_cache() });
        assert!(worst < 3.0, "{mode:?}: {worst} blocks written for each block");
    }
}

#[test]
fn a_nearly_full_volume_with_little_overprovision_accepts_writes() {
    for mode in [AllocMode::Adaptive, AllocMode::Lfs] {
        let format = MkfsOptions { overprovision_percent: Some(4.0), ..MkfsOptions::default() };
        let worst = wear(400, 98, 2, &format, MountOptions { mode, ..small_cache() });
        assert!(worst < 4.0, "{mode:?}: {worst} blocks written for each block");
    }
}

/// Cleaning moves synced data; a power cut at any of its writes must not lose any.
#[test]
fn cuts_during_cleaning() {
    let mut rig = Rig::new(80, &MkfsOptions::default(), small_cache());
    rig.fill(95);
    let mut rng = Rng::new(0x5E60_00C6);
    rig.overwrite(&mut rng, 12_000);
    rig.v.sync().unwrap();
    let synced = rig.versions.clone();
    let last_synced = rig.next;
    let base = rig.dev.snapshot();
    let dev = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
    let opts = MountOptions { mode: AllocMode::Lfs, cache_bytes: 2 << 20, ..quiet() };
    rig.v = Volume::mount(dev.clone(), opts.clone()).unwrap();
    rig.overwrite(&mut rng, 6_000);
    assert!(rig.v.stats().gc_sections.load(Ordering::Relaxed) > 3);
    let log = CrashLog::new(base, dev.log()).unwrap();
    let main: u64 = rig.v.superblock().geo.main_blkaddr.into();
    let plan = CrashPlan { subsets: 6, torn_data: 10, ..CrashPlan::new(3) };
    let states = CrashStates::new(&log, plan, |addr, _| addr < main);
    let every = states.len() / 60 + 1;
    for state in states.step_by(every) {
        let device = Arc::new(state.device);
        let v = Volume::mount(device.clone(), opts.clone()).unwrap();
        let mut bytes = vec![0; BLOCK as usize];
        for (file, versions) in synced.iter().enumerate() {
            for (block, &version) in versions.iter().enumerate() {
                v.read(rig.files[file], block as u64 * BLOCK, &mut bytes).unwrap();
                let found = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                let fine = found == version || found > last_synced;
                let whole = bytes == content(file, block as u64, found);
                assert!(
                    fine && whole,
                    "{}: file {file} block {block}: version {found}, not {version}",
                    state.choice
                );
            }
        }
        v.unmount().unwrap();
        assert_clean(&*device);
    }
}

#[test]
fn freed_segments_are_discarded_and_others_are_not() {
    let opts = MountOptions { discard: Discard::NOW, ..small_cache() };
    let mut rig = Rig::new(128, &MkfsOptions::default(), opts);
    rig.fill(90);
    rig.v.sync().unwrap();
    for file in (0..rig.files.len()).step_by(2) {
        rig.v.unlink(Ino::ROOT, format!("file {file}").as_bytes()).unwrap();
        rig.versions[file].clear();
    }
    assert_eq!(rig.v.stats().discards.load(Ordering::Relaxed), 0, "not before the checkpoint");
    rig.v.sync().unwrap();
    let segments = rig.v.stats().discards.load(Ordering::Relaxed);
    assert!(segments >= 10, "{segments} segments");
    rig.verify();
    rig.remount();
    rig.verify();
}

/// With a background thread, discards are deferred: a busy step issues a few, an idle one all; reused segments are
/// skipped.
#[test]
fn discards_wait_for_idle_steps() {
    let opts =
        MountOptions { background: true, commit_interval: 1 << 20, discard: Discard::NOW, ..small_cache() };
    let mut rig = Rig::new(128, &MkfsOptions::default(), opts);
    let background = Background::start(&rig.v).unwrap();
    let count = |rig: &Rig, name| rig.v.report().into_iter().find(|(n, _)| *n == name).unwrap().1;
    rig.fill(90);
    Probe(&rig.v).checkpoint().unwrap();
    rig.delete_all();
    Probe(&rig.v).checkpoint().unwrap();
    let freed = count(&rig, "undiscarded_segments");
    assert!(freed >= 20, "{freed} segments");
    assert_eq!(count(&rig, "discards"), 0);
    Probe(&rig.v).tick().unwrap();
    let busy = count(&rig, "discards");
    assert!((1..=8).contains(&busy), "{busy} segments in a busy step");
    rig.fill(60);
    Probe(&rig.v).tick().unwrap();
    Probe(&rig.v).tick().unwrap();
    let discards = count(&rig, "discards");
    assert_eq!(count(&rig, "undiscarded_segments"), 0);
    assert!(
        discards > busy && discards + 8 < freed,
        "{discards} of {freed} segments, and the rest is in use"
    );
    rig.verify();
    drop(background);
    rig.remount();
    rig.verify();
}

#[test]
fn concurrent_writers_cleaner_and_background_steps() {
    let mut rig = Rig::new(96, &MkfsOptions::default(), small_cache());
    rig.fill(90);
    let files = rig.files.clone();
    let v = &rig.v;
    std::thread::scope(|s| {
        for (t, pair) in files.chunks(files.len().div_ceil(3)).enumerate() {
            s.spawn(move || {
                let mut rng = Rng::new(t as u64 + 1);
                for i in 0..6_000u32 {
                    let ino = pair[rng.below(pair.len() as u64) as usize];
                    let block = rng.below(FILE_BLOCKS / 4);
                    v.write(ino, block * BLOCK, &content(0, block, i)).unwrap();
                    if rng.below(200) == 0 {
                        v.fsync(ino, false).unwrap();
                    }
                }
            });
        }
        s.spawn(move || {
            for i in 0..300 {
                let name = format!("short-lived {i}");
                let attr = v.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap();
                v.write(attr.ino, 0, &[1; 20_000]).unwrap();
                Probe(v).clean_once().unwrap();
                if i % 30 == 0 {
                    Probe(v).tick().unwrap();
                }
                v.unlink(Ino::ROOT, name.as_bytes()).unwrap();
            }
        });
    });
    rig.remount();
}

/// Load of one thread on a full volume: files are created, grown, synced and deleted.
fn live(v: &Volume, thread: u64, rounds: u64) {
    let mut rng = Rng::new(thread + 1);
    let dir = v.mkdir(Ino::ROOT, format!("of {thread}").as_bytes(), 0o755, Owner::default()).unwrap().ino;
    let mut names: Vec<String> = Vec::new();
    for round in 0..rounds {
        let mut step = || {
            let full = v.statfs().bfree < 600;
            if names.is_empty() || (!full && rng.below(2) == 0) {
                let name = round.to_string();
                let ino = v.mknod(dir, name.as_bytes(), 0o100_644, (0, 0), Owner::default())?.ino;
                names.push(name);
                let len = if rng.below(8) == 0 { 1 << 20 } else { rng.below(100_000) as usize + 1 };
                v.write(ino, 0, &vec![round as u8; len])?;
                return if rng.below(8) == 0 { v.fsync(ino, false) } else { Ok(()) };
            }
            let i = rng.below(names.len() as u64) as usize;
            if full || rng.below(2) == 0 {
                return v.unlink(dir, names.swap_remove(i).as_bytes());
            }
            let attr = v.lookup(dir, names[i].as_bytes())?;
            v.write(attr.ino, rng.below(attr.size.max(1)), &[7; 9_000])?;
            if rng.below(8) == 0 { v.fsync(attr.ino, false) } else { Ok(()) }
        };
        match step() {
            Ok(()) => {}
            Err(Error::NoSpace) => assert!(v.statfs().bfree < 900, "{} blocks are free", v.statfs().bfree),
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn concurrent_creation_and_deletion_on_a_full_volume() {
    for mode in [AllocMode::Adaptive, AllocMode::Lfs] {
        let dev = fresh(100, &MkfsOptions::default());
        let opts = MountOptions { mode, cache_bytes: 4 << 20, ..quiet() };
        let v = Volume::mount(dev.clone(), opts).unwrap();
        std::thread::scope(|s| {
            for thread in 0..6 {
                let v = &v;
                s.spawn(move || live(v, thread, 1_500));
            }
        });
        v.unmount().unwrap();
        assert_clean(&*dev);
    }
}

/// All policies, and variants of `factor`.
fn policies() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|p| p.example).chain(["factor:1,3", "factor:1,2:atgc"])
}

#[test]
fn a_nearly_full_volume_accepts_writes_under_every_policy() {
    for name in policies() {
        let opts = MountOptions { gc_policy: Some(name.to_owned()), mode: AllocMode::Lfs, ..small_cache() };
        let worst = wear(80, 90, 1, &MkfsOptions::default(), opts);
        assert!(worst < 4.0, "{name}: {worst} blocks written for each block");
    }
}

#[test]
fn fsck_f2fs_finds_no_error_after_any_policy() {
    for (i, name) in policies().enumerate() {
        let mode = if i % 2 == 0 { AllocMode::Lfs } else { AllocMode::Adaptive };
        let opts = MountOptions { gc_policy: Some(name.to_owned()), mode, ..small_cache() };
        let mut rig = Rig::new(80, &MkfsOptions::default(), opts);
        rig.fill(90);
        rig.overwrite(&mut Rng::new(0x5E60_00C7), 20_000);
        let cleaned = rig.v.stats().gc_sections.load(Ordering::Relaxed);
        assert!(cleaned > 5, "{name}: {cleaned} sections were cleaned");
        rig.remount();
        assert_clean_to_f2fs_tools(&*rig.dev, name);
    }
}

#[test]
fn unknown_policies_and_bad_parameters_are_refused() {
    let dev = fresh(80, &MkfsOptions::default());
    for policy in [
        "sparkle",
        "",
        "greedy:1",
        "factor",
        "factor:1",
        "factor:x/2",
        "factor:-1/2",
        "factor:65536/1",
        "factor:nan/1",
        "factor:inf/1",
        "factor:1/2:weighted",
        "factor:1/2:factor",
    ] {
        let opts = MountOptions { gc_policy: Some(policy.into()), ..quiet() };
        assert!(matches!(Volume::mount(dev.clone(), opts), Err(Error::Invalid(_))), "{policy}");
    }
    Volume::mount(dev, MountOptions { gc_policy: Some("factor:1/2:atgc".into()), ..quiet() }).unwrap();
}

/// Files with most blocks deleted, so that sections are worth cleaning.
fn scattered(opts: MountOptions) -> Rig {
    let mut rig = Rig::new(96, &MkfsOptions::default(), opts);
    rig.fill(60);
    rig.v.sync().unwrap();
    for file in 0..rig.files.len() {
        let (ino, len) = (rig.files[file], rig.versions[file].len());
        for block in (0..len as u64).filter(|b| b % 4 != 0) {
            rig.v.fallocate(ino, FallocMode::PunchHole, block * BLOCK, BLOCK).unwrap();
        }
    }
    rig.v.sync().unwrap();
    rig
}

fn verify_quarter(rig: &Rig) {
    let mut bytes = vec![0; BLOCK as usize];
    for (file, versions) in rig.versions.iter().enumerate() {
        for (block, &version) in versions.iter().enumerate().filter(|(b, _)| b % 4 == 0) {
            rig.v.read(rig.files[file], block as u64 * BLOCK, &mut bytes).unwrap();
            assert!(bytes == content(file, block as u64, version), "file {file} block {block}");
        }
    }
}

#[test]
fn requested_cleaning_ends_and_frees_worthwhile_sections() {
    let mut rig = scattered(small_cache());
    let free = |v: &Volume| v.report().into_iter().find(|(n, _)| *n == "free_sections").unwrap().1;
    let (before, mut rounds) = (free(&rig.v), 0);
    while rig.v.clean_now().unwrap() > 0 {
        rounds += 1;
        assert!(rounds < 48, "a volume of 48 segments is never done");
    }
    // Three quarters of the written blocks are holes; more than half must become free sections.
    let written: u64 = rig.versions.iter().map(|v| v.len() as u64).sum();
    assert!(free(&rig.v) >= before + written / 1024, "{before} free sections became {}", free(&rig.v));
    assert_eq!(rig.v.stats().gc_stall.recorded().count(), 0, "no writer waited");
    verify_quarter(&rig);
    rig.remount();
    verify_quarter(&rig);
}

#[test]
fn modes_determine_what_a_step_cleans() {
    let rig = scattered(MountOptions { background_gc: false, ..small_cache() });
    let cleaned = || rig.v.stats().gc_background.load(Ordering::Relaxed);
    assert_eq!(rig.v.gc_mode(), GcMode::Off);
    (0..3).for_each(|_| Probe(&rig.v).tick().unwrap());
    assert_eq!(cleaned(), 0);
    rig.v.set_gc_mode(GcMode::Urgent);
    rig.v.write(rig.files[0], 0, &content(0, 0, 0)).unwrap();
    Probe(&rig.v).tick().unwrap();
    let once = cleaned();
    assert!((2..=16).contains(&once), "{once} sections although the volume was used");
    (0..48).for_each(|_| Probe(&rig.v).tick().unwrap());
    let all = cleaned();
    Probe(&rig.v).tick().unwrap();
    assert!(
        cleaned() == all && all >= once,
        "it ends when no section is worth cleaning: {once}, {all}, {}",
        cleaned()
    );
}

#[test]
fn blocks_moved_while_a_writer_waits_are_counted() {
    let mut rig =
        Rig::new(80, &MkfsOptions::default(), MountOptions { mode: AllocMode::Lfs, ..small_cache() });
    rig.fill(90);
    rig.overwrite(&mut Rng::new(7), 60_000);
    let stats = rig.v.stats();
    let (stalls, moved) = (stats.gc_stall.recorded(), stats.gc_data_blocks.load(Ordering::Relaxed));
    let nodes = stats.gc_node_blocks.load(Ordering::Relaxed);
    assert!(stalls.count() > 0 && moved > 0);
    assert_eq!(stalls.sum(), moved + nodes, "no other cleaning runs here");
}

/// Without hole filling a data log opens a section for each 512 blocks of data and directories, written or moved.
#[test]
fn opened_sections_are_counted_by_what_opens_them() {
    let mut rig =
        Rig::new(80, &MkfsOptions::default(), MountOptions { mode: AllocMode::Lfs, ..small_cache() });
    rig.fill(90);
    rig.overwrite(&mut Rng::new(7), 60_000);
    rig.v.sync().unwrap();
    let report = rig.v.report();
    let sum = |names: &[&str]| report.iter().filter(|(n, _)| names.contains(n)).map(|(_, v)| v).sum::<u64>();
    let placed = sum(&["data_blocks", "dent_blocks", "gc_data_blocks"]) / 512;
    let by_logs = sum(&[
        "opened_sections_hot_data",
        "opened_sections_warm_data",
        "opened_sections_cold_data",
        "opened_sections_stream",
    ]);
    let by_cleaning = sum(&["opened_sections_cleaning"]);
    assert!((by_logs + by_cleaning).abs_diff(placed) <= 3, "{by_logs} + {by_cleaning} sections of {placed}");
    assert!(by_logs > 60 && by_cleaning > 10, "{by_logs} for data, {by_cleaning} for moved data");
    assert!(
        sum(&["opened_sections_warm_node", "opened_sections_cold_node"]) > 0,
        "nodes have logs of their own"
    );
}

/// In `mode=lfs` dirty data counts as needed space; a cache larger than the free space must not use it up.
#[test]
fn overwrites_with_a_cache_larger_than_the_free_space() {
    let mut rig = Rig::new(192, &MkfsOptions::default(), MountOptions { mode: AllocMode::Lfs, ..quiet() });
    rig.fill(92);
    rig.v.sync().unwrap();
    rig.overwrite(&mut Rng::new(9), 30_000);
    rig.verify();
    rig.remount();
    rig.verify();
}

/// Writers and writeback threads on a full volume whose logs need free sections: none is refused an overwrite.
#[test]
fn parallel_overwrites_of_a_full_lfs_volume_find_space() {
    for (threads, percent) in [(1, 96), (4, 96), (8, 85)] {
        let dev = fresh(256, &MkfsOptions::default());
        let opts = MountOptions { mode: AllocMode::Lfs, cache_bytes: 16 << 20, ..MountOptions::default() };
        let v = Volume::mount(dev.clone(), opts).unwrap();
        let ino = v.mknod(Ino::ROOT, b"file", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
        let blocks = v.statfs().bavail * percent / 100;
        for block in 0..blocks {
            v.write(ino, block * BLOCK, &content(0, block, 0)).unwrap();
        }
        v.sync().unwrap();
        std::thread::scope(|s| {
            for t in 0..threads {
                let v = &v;
                s.spawn(move || {
                    let mut rng = Rng::new(t + 1);
                    for n in 0..4 * blocks / threads {
                        let block = rng.below(blocks);
                        v.write(ino, block * BLOCK, &content(0, block, n as u32))
                            .unwrap_or_else(|e| panic!("write {n}: {e}"));
                    }
                });
            }
        });
        v.unmount().unwrap();
        assert_clean(&*dev);
    }
}
