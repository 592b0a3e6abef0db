//! Bytes that are not what was written.
use crate::rig::*;
use proptest::prelude::*;
use segno_device::BlockDevice;
use segno_format::Block;
use segno_journal::{Area, Journal};

fn flip(dev: &dyn BlockDevice, at: u64, bit: usize) {
    let mut block = [Block::zeroed()];
    dev.read(at, &mut block).unwrap();
    block[0].0[bit / 8] ^= 1 << (bit % 8);
    dev.write(at, &[&block[0]]).unwrap();
}

/// Every bit, padding included: the group before stays, the changed one and what follows it go.
#[test]
fn every_flipped_bit_of_a_group_is_seen() {
    let dev = device(64);
    let journal = create(&dev);
    for epoch in 1..=3 {
        journal.append(&group(epoch, 1)).unwrap();
    }
    journal.flush().unwrap();
    let second = 2 + 1;
    for bit in 0..4096 * 8 {
        flip(&*dev, second, bit);
        assert_eq!(epochs(&replay(open(&dev, 1))), [1], "bit {bit}");
        flip(&*dev, second, bit);
    }
    assert_eq!(epochs(&replay(open(&dev, 1))), [1, 2, 3]);
}

/// One of the two superblocks at a time: the other serves.
#[test]
fn every_flipped_bit_of_a_superblock_is_seen() {
    let dev = device(64);
    let journal = create(&dev);
    journal.append(&group(1, 1)).unwrap();
    journal.intend(intent(2, 1)).unwrap();
    journal.flush().unwrap();
    journal.reclaim().unwrap();
    journal.append(&group(2, 1)).unwrap();
    journal.flush().unwrap();
    for bit in (0..4096 * 8).filter(|b| b % 7 == 0 || *b < 200 * 8) {
        for copy in 0..2 {
            flip(&*dev, copy, bit);
            assert_eq!(epochs(&replay(open(&dev, 2))), [2], "copy {copy} bit {bit}");
            flip(&*dev, copy, bit);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the blocks hold: an answer, no panic, no more memory than the ring.
    #[test]
    fn any_area_is_safe(
        changes in prop::collection::vec((0..18u64, 0..4096usize, any::<u8>()), 0..60),
        version in 1..4u64,
    ) {
        let dev = device(18);
        let journal = create(&dev);
        journal.append(&group(1, 3)).unwrap();
        journal.intend(intent(2, 1)).unwrap();
        journal.append(&group(2, 2)).unwrap();
        journal.flush().unwrap();
        for (at, byte, value) in changes {
            let mut block = [Block::zeroed()];
            dev.read(at, &mut block).unwrap();
            block[0].0[byte] = value;
            dev.write(at, &[&block[0]]).unwrap();
        }
        if let Ok(segno_journal::Opened::Usable(replay)) =
            Journal::open(Area::whole(dev.clone()), &checkpoint(version), &*device(8))
        {
            replay.groups().for_each(drop);
            let journal = replay.into_journal().unwrap();
            let _room = journal.append(&group(100, 1));
        }
    }
}
