//! What a directory costs that nobody has looked at yet.
use super::*;
use segno_device::CountDevice;

/// Lists `names` names, all flushed by one checkpoint, and returns the reads it took and the blocks they read.
fn reads_of_cold_listing(names: usize) -> (u64, u64) {
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
    let dir = v.lookup(ROOT, b"d").unwrap().ino;
    let before = counted.counts();
    let mut seen = 0;
    v.readdir(dir, 0, &mut |_| {
        seen += 1;
        true
    })
    .unwrap();
    assert_eq!(seen, names + 2);
    let cost = counted.counts() - before;
    (cost.reads, cost.blocks_read)
}

#[test]
fn listing_reads_many_blocks_at_a_time() {
    // Blocks of a directory lie together where a checkpoint wrote them; holes between the buckets end a run.
    let (reads, blocks) = reads_of_cold_listing(4_000);
    assert!(blocks > 70 && reads * 2 < blocks, "{reads} reads of {blocks} blocks");
}
