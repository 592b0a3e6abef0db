//! Writeback contexts and streams, and the resulting layout.
use crate::common::{assert_clean, fresh, quiet};
use segno_device::MemDevice;
use segno_engine::lab::Probe;
use segno_engine::{Background, ContextSetting, ExtentKind, MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_mkfs::MkfsOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: usize = 1 << 20;

fn contexts(n: u32) -> MountOptions {
    MountOptions { contexts: ContextSetting::Fixed(n), ..quiet() }
}

fn shared_only(n: u32) -> MountOptions {
    MountOptions { exclusive_streams: Some(0), ..contexts(n) }
}

fn create(v: &Volume, name: &str) -> Ino {
    v.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap().ino
}

fn figure(v: &Volume, name: &str) -> u64 {
    v.report().into_iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no figure {name}")).1
}

/// Extents of a file.
fn extents(v: &Volume, ino: Ino) -> usize {
    let all = v.extents(ino).unwrap();
    assert!(all.iter().all(|e| e.kind == ExtentKind::Written));
    all.len()
}

/// `writers` files, written alternately in steps of 1 MiB; the device does not store zeros, so they take no memory.
fn side_by_side(v: &Volume, writers: usize, mib: usize) -> Vec<Ino> {
    let files: Vec<Ino> = (0..writers).map(|i| create(v, &format!("f{i}"))).collect();
    let zeros = vec![0; MIB];
    for step in 0..mib {
        for &ino in &files {
            assert_eq!(v.write(ino, (step * MIB) as u64, &zeros).unwrap(), MIB);
        }
    }
    v.sync().unwrap();
    files
}

fn total_extents(opts: MountOptions, mib: u64) -> (usize, u64) {
    let dev = fresh(mib, &MkfsOptions::default());
    let v = Volume::mount(dev.clone(), opts).unwrap();
    let files = side_by_side(&v, 12, 96);
    let n = files.iter().map(|&ino| extents(&v, ino)).sum();
    let calls = figure(&v, "alloc_calls");
    v.unmount().unwrap();
    assert_clean(&*dev);
    (n, calls)
}

#[test]
fn sequential_writers_get_contiguous_files() {
    let (shared, calls) = total_extents(shared_only(1), 6144);
    assert!(shared > 100, "one log for all puts files between each other: {shared}");
    assert!(calls <= 12 * 96, "more than two calls for 2 MiB: {calls}");
    let (exclusive, calls) = total_extents(contexts(1), 6144);
    assert!(exclusive <= 2 * 12, "{exclusive} extents of 12 files");
    assert!(calls <= 12 * 96, "more than two calls for 2 MiB: {calls}");
    let (many, _) = total_extents(contexts(8), 6144);
    assert!(many <= exclusive, "{many} extents with 8 contexts, {exclusive} with one");
}

#[test]
fn a_volume_with_streams_is_standard_at_each_checkpoint() {
    let dev = fresh(2048, &MkfsOptions::default());
    let v = Volume::mount(dev.clone(), contexts(16)).unwrap();
    assert_eq!(v.contexts().1, 16);
    let mut files = Vec::new();
    for round in 0..4 {
        for i in 0..40 {
            let ino = create(&v, &format!("{round}-{i}"));
            let data = vec![i as u8 + 1; if i % 10 == 0 { 6 * MIB } else { 40_000 }];
            v.write(ino, 0, &data).unwrap();
            files.push((ino, data));
        }
        v.sync().unwrap();
        assert!(figure(&v, "streams_shared") >= 15, "every context but the first has a stream");
        assert!(figure(&v, "streams_exclusive") > 0);
        assert!(figure(&v, "opened_sections_stream") >= 15);
        let crashed = Arc::new(MemDevice::from_snapshot(&dev.snapshot()));
        assert_clean(&*crashed);
        let again = Volume::mount(crashed, quiet()).unwrap();
        for (ino, data) in &files {
            let mut found = vec![0; data.len()];
            assert_eq!(again.read(*ino, 0, &mut found).unwrap(), data.len());
            assert!(found == *data);
        }
    }
    assert!(figure(&v, "park_blocks") > 0);
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn partly_used_segments_of_streams_are_used_first() {
    let dev = fresh(2048, &MkfsOptions::default());
    let v = Volume::mount(dev.clone(), contexts(8)).unwrap();
    for i in 0..64 {
        v.write(create(&v, &format!("a{i}")), 0, &vec![1; 100_000]).unwrap();
    }
    v.sync().unwrap();
    let free = figure(&v, "free_segments");
    v.set_contexts(ContextSetting::Fixed(1));
    let parked = figure(&v, "parked_blocks");
    assert!(parked > 7 * 256, "{parked} blocks left by seven streams");
    for i in 0..64 {
        v.write(create(&v, &format!("b{i}")), 0, &vec![2; 100_000]).unwrap();
        v.sync().unwrap();
    }
    assert!(figure(&v, "parked_blocks") < parked);
    assert_eq!(figure(&v, "free_segments"), free, "new sections were opened while old ones had room");
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn files_are_spread_over_all_contexts() {
    let dev = fresh(2048, &MkfsOptions::default());
    let v = Volume::mount(dev, contexts(8)).unwrap();
    let all: Vec<Ino> = (0..1600).map(|i| create(&v, &i.to_string())).collect();
    let chosen: Vec<Ino> = all.into_iter().filter(|ino| ino.0 % 8 == 5).collect();
    assert!(chosen.len() > 150);
    chosen.iter().for_each(|&ino| assert_eq!(v.write(ino, 0, &[9; 20_000]).unwrap(), 20_000));
    let per = Probe(&v).context_loads();
    let (most, sum) = (per.iter().max().unwrap(), per.iter().sum::<u64>());
    assert_eq!(per.len(), 8);
    assert_eq!(sum, figure(&v, "dirty_data_pages"), "every dirty page is counted by one context");
    assert!(*most as f64 <= 1.5 * sum as f64 / 8.0, "{per:?}");
    v.sync().unwrap();
    assert_eq!(Probe(&v).context_loads(), [0; 8]);
}

#[test]
fn the_number_changes_under_load() {
    let dev = fresh(2048, &MkfsOptions::default());
    let opts = MountOptions { background: true, commit_interval: 1, cache_bytes: 24 << 20, ..contexts(4) };
    let v = Volume::mount(dev.clone(), opts).unwrap();
    let background = Background::start(&v).unwrap();
    let stop = AtomicBool::new(false);
    let files: Vec<Ino> = (0..6).map(|i| create(&v, &format!("w{i}"))).collect();
    let written = std::thread::scope(|s| {
        let writers: Vec<_> = files
            .iter()
            .map(|&ino| {
                let (v, stop) = (&v, &stop);
                s.spawn(move || {
                    let mut at = 0u64;
                    while !stop.load(Ordering::Relaxed) && at < 96 {
                        v.write(ino, at * MIB as u64, &vec![(at % 250) as u8 + 1; MIB]).unwrap();
                        at += 1;
                        if at.is_multiple_of(16) {
                            v.fsync(ino, false).unwrap();
                        }
                    }
                    at
                })
            })
            .collect();
        for n in [16, 1, 8, 2, 32, 1, 3] {
            v.set_contexts(ContextSetting::Fixed(n));
            assert_eq!(v.contexts().1, n);
            v.sync().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|w| w.join().unwrap()).collect::<Vec<u64>>()
    });
    v.sync().unwrap();
    assert_eq!(Probe(&v).context_loads(), [0; 3], "a sync flushes every context, retired ones too");
    for (&ino, &mib) in files.iter().zip(&written) {
        let mut found = vec![0; MIB];
        for at in 0..mib {
            v.read(ino, at * MIB as u64, &mut found).unwrap();
            assert!(found.iter().all(|&b| b == (at % 250) as u8 + 1), "MiB {at}");
        }
    }
    drop(background);
    assert_eq!(Arc::strong_count(&v), 1, "all threads have ended");
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn a_large_file_is_written_back_before_much_is_dirty() {
    let opts = MountOptions { background: true, commit_interval: 3600, cache_bytes: 64 << 20, ..contexts(1) };
    let v = Volume::mount(fresh(512, &MkfsOptions::default()), opts).unwrap();
    let background = Background::start(&v).unwrap();
    let (small, large) = (create(&v, "small"), create(&v, "large"));
    v.write(small, 0, &vec![1; MIB]).unwrap();
    // A sixteenth of the cache is 4 MiB; all dirty data is less than a quarter.
    for at in 0..8 {
        v.write(large, at * MIB as u64, &vec![2; MIB]).unwrap();
    }
    let left = || figure(&v, "dirty_data_pages") / 256;
    let mut looks = 0;
    while left() > 1 + 4 {
        looks += 1;
        assert!(looks < 2000, "{} MiB stay dirty", left());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(left() >= 1, "the small file is not flushed yet");
    drop(background);
}

#[test]
fn removing_a_file_ends_its_stream() {
    let dev = fresh(512, &MkfsOptions::default());
    let v = Volume::mount(dev, contexts(2)).unwrap();
    let ino = create(&v, "f");
    v.write(ino, 0, &vec![0; 8 * MIB]).unwrap();
    v.sync().unwrap();
    assert_eq!(figure(&v, "streams_exclusive"), 1);
    v.unlink(Ino::ROOT, b"f").unwrap();
    assert_eq!(figure(&v, "streams_exclusive"), 0);
}

/// Fills the volume file by file. Returns the bytes that fitted.
fn fill(v: &Volume) -> u64 {
    let mut total = 0;
    let data = vec![0; 200_000];
    for i in 0.. {
        let Ok(attr) = v.mknod(Ino::ROOT, format!("x{i}").as_bytes(), 0o100_644, (0, 0), Owner::default())
        else {
            break;
        };
        match v.write(attr.ino, 0, &data) {
            Ok(n) => total += n as u64,
            Err(e) => {
                assert_eq!(e.errno(), 28, "{e}");
                break;
            }
        }
    }
    total
}

#[test]
fn a_full_volume_is_as_full_with_many_contexts() {
    let mut filled = Vec::new();
    for n in [1, 16] {
        let dev = fresh(1024, &MkfsOptions::default());
        let v = Volume::mount(dev.clone(), contexts(n)).unwrap();
        let total = fill(&v);
        v.sync().unwrap();
        // Every block of a full volume can be overwritten, whatever the positions of the logs.
        let zeros = vec![0; 200_000];
        for i in (0..800).step_by(3) {
            let ino = v.lookup(Ino::ROOT, format!("x{i}").as_bytes()).unwrap().ino;
            assert_eq!(v.write(ino, 0, &zeros).unwrap(), zeros.len());
            if i % 30 == 0 {
                v.fsync(ino, false).unwrap();
            }
        }
        v.unmount().unwrap();
        assert_clean(&*dev);
        filled.push(total);
    }
    assert!(filled[0].abs_diff(filled[1]) <= 2 << 20, "{filled:?}");
}

/// The context that has dirty pages.
fn busy_context(v: &Volume) -> usize {
    let loads = Probe(v).context_loads();
    assert_eq!(loads.iter().filter(|&&n| n > 0).count(), 1, "one file is dirty: {loads:?}");
    loads.iter().position(|&n| n > 0).unwrap()
}

#[test]
fn a_file_keeps_its_context_and_stream_across_full_regions() {
    let dev = fresh(2048, &MkfsOptions::default());
    let v = Volume::mount(dev.clone(), contexts(8)).unwrap();
    // Holes of several sizes between files that are kept.
    let fillers: Vec<Ino> =
        side_by_side(&v, 1, 4).into_iter().chain((0..90).map(|i| create(&v, &format!("fill{i}")))).collect();
    let zeros = vec![0; 24 * MIB];
    for (i, &ino) in fillers.iter().enumerate() {
        let len = (2 + 2 * (i % 11)) * MIB;
        assert_eq!(v.write(ino, 0, &zeros[..len]).unwrap(), len);
        v.sync().unwrap();
    }
    for i in (0..90).step_by(2) {
        v.unlink(Ino::ROOT, format!("fill{i}").as_bytes()).unwrap();
    }
    v.sync().unwrap();
    let broken = |v: &Volume| {
        (
            figure(v, "stream_claims_broken_by_use"),
            figure(v, "stream_claims_broken_by_claim"),
            figure(v, "stream_refusals"),
        )
    };
    let before = broken(&v);
    let ino = create(&v, "long");
    let mut home = None;
    for step in 0..30 {
        assert_eq!(v.write(ino, (step * 16 * MIB) as u64, &zeros[..16 * MIB]).unwrap(), 16 * MIB);
        assert_eq!(*home.get_or_insert_with(|| busy_context(&v)), busy_context(&v), "step {step}");
        v.fsync(ino, false).unwrap();
    }
    let after = broken(&v);
    let detours = after.0 - before.0;
    assert!(detours >= 3, "no full region was in the way: {detours}");
    assert_eq!((after.1, after.2), (before.1, before.2), "no other stream was in the way, none was refused");
    assert!(extents(&v, ino) as u64 <= detours + 1, "an extent for a reason that is not counted");
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn a_caller_writes_back_as_many_pages_as_it_wants_in_file_order() {
    let dev = fresh(128, &MkfsOptions::default());
    let v = Volume::mount(dev.clone(), quiet()).unwrap();
    let (ino, other) = (create(&v, "a"), create(&v, "b"));
    let write = || {
        for (page, ino) in [0, 2, 4, 6, 8].into_iter().flat_map(|page| [(page, ino), (page, other)]) {
            assert_eq!(v.write(ino, page * 4096, &[page as u8 + 1; 4096]).unwrap(), 4096);
        }
    };
    write();
    assert_eq!(Probe(&v).write_back(ino, 4, 1).unwrap(), Some(5));
    assert_eq!(figure(&v, "dirty_data_pages"), 7, "the size on the device is to cover only what is there");
    v.sync().unwrap();
    write();
    let left = |from, most| (Probe(&v).write_back(ino, from, most).unwrap(), figure(&v, "dirty_data_pages"));
    assert_eq!(left(3, 2), (Some(7), 8), "pages 4 and 6");
    assert_eq!(left(4, 1), (Some(9), 7), "page 8 is the next dirty one");
    assert_eq!(left(5, 9), (None, 7));
    assert_eq!(left(0, 0), (None, 7));
    assert_eq!(left(0, 9), (Some(3), 5), "pages 0 and 2; the other file's are dirty");
    v.unmount().unwrap();
    assert_clean(&*dev);
}
