//! What a directory costs that nobody has looked at yet.
use super::*;
use segno_device::{CountDevice, Counts};
use segno_format::BLOCK_SIZE;

/// Mounts, finds and lists a directory of `names` names, all flushed by one checkpoint; what prefetching until it was
/// found, and finding and listing it cost.
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
    // Blocks of a directory lie together where a checkpoint wrote them, whatever holes there are between its buckets.
    let (.., listing) = cost_of_cold_listing(4_000);
    assert!(listing.blocks_read > 70 && listing.reads * 16 < listing.blocks_read, "{listing:?}");
}

#[test]
fn who_finds_a_directory_has_its_names_on_the_way() {
    let (prefetched, finding, listing) = cost_of_cold_listing(1_000);
    // Of the root, which has one block, when it is mounted, and of the directory beside it.
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
fn looking_at_many_inodes_keeps_to_the_limit_of_the_cache() {
    let (dev, files) = many_files(3_000);
    let limit = 512;
    let v = Volume::mount(dev, MountOptions { cache_bytes: limit * BLOCK_SIZE, ..quiet() }).unwrap();
    let dir = v.lookup(ROOT, b"d").unwrap().ino;
    for (i, f) in files.iter().enumerate() {
        assert_eq!(v.lookup(dir, format!("{i}").as_bytes()).unwrap().ino, f.ino);
        let cached = v.report().into_iter().find(|(name, _)| *name == "cached_nodes").unwrap().1;
        // What is read at once may come on top.
        assert!(cached <= limit as u64 + 256, "{cached} after {i}");
    }
    v.unmount().unwrap();
}
