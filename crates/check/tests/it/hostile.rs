//! Bytes that no implementation writes: no panic, no endless loop, no endless report.
use crate::edit::Edit;
use crate::image::filled;
use segno_check::{CheckError, CheckOptions, check};
use segno_device::{BlockDevice, MemDevice};
use segno_format::{Block, BlockAddr};
use segno_testkit::Rng;
use zerocopy::IntoBytes;

/// Blocks worth damaging: blocks that are not zero, with metadata and nodes preferred over file data.
fn targets(e: &Edit) -> Vec<BlockAddr> {
    let metadata = (0..e.geo.main_blkaddr).map(BlockAddr);
    let nodes = (0..720).map(|nid| e.node(nid)).filter(|&a| e.geo.in_main(a));
    let dirs = ["", "many", "sub"].into_iter().flat_map(|d| {
        let ino = e.lookup(d);
        (0..30).map(move |i| (ino, i)).map(|(ino, i)| e.slot(ino, i)).filter(|a| a.is_real())
    });
    metadata.chain(nodes).chain(dirs).filter(|&a| !e.block(a).is_zero()).collect()
}

#[test]
fn random_bytes() {
    let image = filled();
    let targets = targets(&Edit::new(image));
    let opts = CheckOptions { max_problems: 10, ..CheckOptions::default() };
    for seed in 1..=400u64 {
        println!("seed {seed}");
        let mut random = Rng::new(seed);
        let e = Edit::new(image);
        for _ in 0..=random.draw() % 8 {
            let addr = targets[random.draw() as usize % targets.len()];
            let mut block = e.block(addr);
            for _ in 0..=random.draw() % 16 {
                block.0[random.draw() as usize % 4096] = random.draw() as u8;
            }
            e.put(addr, &block);
        }
        if random.draw().is_multiple_of(8) {
            let (at, value) = (random.draw() as usize % 110, random.draw() as u8);
            (0..2).for_each(|copy| e.superblock(copy, |sb| sb.as_mut_bytes()[at] = value));
        }
        // Checksums would stop most of the damage at the door.
        e.change_cp(|_| {});
        assert_eq!(crate::ahead::compare(&format!("seed {seed}"), &e.dev), "");
        match check(&e.dev, &opts, &mut |_| {}) {
            Ok(found) => assert!(found.problems.len() <= opts.max_problems),
            Err(CheckError::NotF2fs) => {}
            Err(e) => panic!("seed {seed}: {e}"),
        }
    }
}

#[test]
fn no_volume() {
    let zeros = MemDevice::new(100);
    assert!(matches!(check(&zeros, &CheckOptions::default(), &mut |_| {}), Err(CheckError::NotF2fs)));
    let tiny = MemDevice::new(1);
    assert!(matches!(check(&tiny, &CheckOptions::default(), &mut |_| {}), Err(CheckError::NotF2fs)));
    let noise = MemDevice::new(100);
    let mut block = Block::zeroed();
    block.0.fill(0xA5);
    (0..100).for_each(|a| noise.write(a, &[&block]).unwrap());
    assert!(matches!(check(&noise, &CheckOptions::default(), &mut |_| {}), Err(CheckError::NotF2fs)));
}
