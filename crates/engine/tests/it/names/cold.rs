//! I/O cost of operations with a cold cache.
use super::*;
use segno_engine::SetAttr;
use segno_format::BLOCK_SIZE;
use segno_testkit::{CountDevice, Counts, Rng};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Mounts, finds and lists a directory of `names` names, all written by one checkpoint. Returns the blocks prefetched
/// until it was found, and the I/O of finding and listing it.
fn cost_of_cold_listing(names: usize) -> (u64, Counts, Counts) {
    let dev = fresh(256, &MkfsOptions::default());
    let v = mount(&dev);
    let dir = v.mkdir(ROOT, b"d", 0o755, Owner::default()).unwrap().ino;
    for i in 0..names {
        v.mknod(dir, format!("a name of some length {i:05}").as_bytes(), REG, (0, 0), Owner::default())
            .unwrap();
    }
    v.unmount().unwrap();
    let counted = Arc::new(CountDevice::new(MemDevice::from_snapshot(&dev.snapshot())));
    let v = Volume::mount(counted.clone(), quiet()).unwrap();
    let before = counted.counts();
    let dir = v.lookup(ROOT, b"d").unwrap().ino;
    let found = counted.counts();
    let mut seen = 0;
    v.readdir(dir, 0, &mut |_| {
        seen += 1;
        true
    })
    .unwrap();
    assert_eq!(seen, names + 2);
    (found.blocks_prefetched, found - before, counted.counts() - found)
}

#[test]
fn listing_reads_many_blocks_at_a_time() {
    // A checkpoint writes blocks of a directory contiguously, even if holes separate its buckets.
    let (.., listing) = cost_of_cold_listing(4_000);
    assert!(listing.blocks_read > 70 && listing.reads * 16 < listing.blocks_read, "{listing:?}");
}

#[test]
fn finding_a_directory_prefetches_its_names() {
    let (prefetched, finding, listing) = cost_of_cold_listing(1_000);
    // One block of the root at mount, and the names of the directory.
    assert_eq!(prefetched, 1 + listing.blocks_read, "{finding:?} {listing:?}");
    assert_eq!((finding.reads, listing.reads), (1, 1), "{finding:?} {listing:?}");
}

/// A volume with a directory of empty files, and their inodes in the order they were made.
fn many_files(count: usize) -> (Arc<MemDevice>, Vec<Attr>) {
    let dev = fresh(256, &MkfsOptions::default());
    let v = mount(&dev);
    let dir = v.mkdir(ROOT, b"d", 0o755, Owner::default()).unwrap().ino;
    let make = |i: usize| v.mknod(dir, format!("{i}").as_bytes(), REG, (0, 0), Owner::default()).unwrap();
    let files = (0..count).map(make).collect();
    v.unmount().unwrap();
    (dev, files)
}

#[test]
fn reading_many_inodes_stays_within_the_cache_limit() {
    let (dev, files) = many_files(3_000);
    let limit = 512;
    let v = Volume::mount(dev, MountOptions { cache_bytes: limit * BLOCK_SIZE, ..quiet() }).unwrap();
    for (i, f) in files.iter().enumerate() {
        assert_eq!(v.read(f.ino, 0, &mut [0]).unwrap(), 0);
        let cached = report(&v, "cached_nodes");
        // One batch may exceed the limit.
        assert!(cached <= limit as u64 + 256, "{cached} after {i}");
    }
    assert!(report(&v, "cached_nodes") >= 200);
    v.unmount().unwrap();
}

fn report(v: &Volume, what: &str) -> u64 {
    v.report().into_iter().find(|(name, _)| *name == what).unwrap().1
}

#[test]
fn sequential_stat_costs_few_reads_and_no_memory() {
    let (dev, files) = many_files(2_000);
    let counted = Arc::new(CountDevice::new(MemDevice::from_snapshot(&dev.snapshot())));
    let v = Volume::mount(counted.clone(), quiet()).unwrap();
    let dir = v.lookup(ROOT, b"d").unwrap().ino;
    let (before, in_memory) = (counted.counts(), report(&v, "cached_nodes"));
    for (i, f) in files.iter().enumerate() {
        assert_eq!(v.lookup(dir, format!("{i}").as_bytes()).unwrap(), *f);
    }
    let done = counted.counts() - before;
    // The last batch extends past the last file, and the names are read too.
    assert!(done.reads < 2_000 / 32 && done.blocks_read < 2_000 + 200, "{done:?}");
    // Nodes read before the sequential pattern was detected, or while the NAT was not in memory.
    let came = report(&v, "cached_nodes") - in_memory;
    assert!(came < 64, "{came}");
    v.unmount().unwrap();
}

#[test]
fn readahead_is_discarded_once_its_blocks_change() {
    let (dev, files) = many_files(1_000);
    // A cache small enough to evict clean entries at once.
    let v = Volume::mount(dev, MountOptions { cache_bytes: 64 * BLOCK_SIZE, ..quiet() }).unwrap();
    let mut rng = Rng::new(7);
    let mut known: Vec<Attr> = files;
    for turn in 0..200 {
        let first = rng.below(known.len() as u64 - 100) as usize;
        for f in &known[first..first + 100] {
            assert_eq!(v.getattr(f.ino).unwrap(), *f, "turn {turn}");
        }
        for _ in 0..20 {
            let f = &mut known[first + rng.below(100) as usize];
            *f = v.setattr(f.ino, &SetAttr { mode: Some(turn), ..SetAttr::default() }).unwrap();
            if turn % 3 == 0 {
                v.fsync(f.ino).unwrap();
            }
        }
        if turn % 7 == 0 {
            v.sync().unwrap();
        }
    }
    v.unmount().unwrap();
}

#[test]
fn stat_never_returns_stale_attributes_under_changes() {
    let (dev, files) = many_files(600);
    let v = Volume::mount(dev, MountOptions { cache_bytes: 64 * BLOCK_SIZE, ..quiet() }).unwrap();
    // Owner ids only grow; holds the id of each file when a change returned.
    let changed: Vec<AtomicU32> = files.iter().map(|_| AtomicU32::new(0)).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        for own in [0, 1] {
            let (v, files, changed, over) = (&v, &files, &changed, &over);
            s.spawn(move || {
                let mut rng = Rng::new(own as u64 + 3);
                for turn in 1..1_500 {
                    // No two threads use the same file.
                    let at = rng.below(files.len() as u64 / 2) as usize * 2 + own;
                    let set = SetAttr { uid: Some(turn), ..SetAttr::default() };
                    v.setattr(files[at].ino, &set).unwrap();
                    changed[at].store(turn, Ordering::SeqCst);
                    match turn % 50 {
                        0 => v.sync().unwrap(),
                        n if n % 5 == 0 => v.fsync(files[at].ino).unwrap(),
                        _ => {}
                    }
                }
                over.store(true, Ordering::SeqCst);
            });
        }
        while !over.load(Ordering::SeqCst) {
            for (f, changed) in files.iter().zip(&changed) {
                let least = changed.load(Ordering::SeqCst);
                let uid = v.getattr(f.ino).unwrap().uid;
                assert!(uid >= least, "file {}: {uid} after {least}", f.ino.0);
            }
        }
    });
    v.unmount().unwrap();
}
