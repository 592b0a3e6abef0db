//! Bytes that are not what was written.
use crate::rig::*;
use proptest::prelude::*;
use segno_device::BlockDevice;
use segno_format::Block;
use segno_journal::{Area, Journal, Stale};

fn flip(dev: &dyn BlockDevice, at: u64, bit: usize) {
    let mut block = [Block::zeroed()];
    dev.read(at, &mut block).unwrap();
    block[0].0[bit / 8] ^= 1 << (bit % 8);
    dev.write(at, &[&block[0]]).unwrap();
}

/// The first block of the group with a number.
fn place(dev: &dyn BlockDevice, seq: u64) -> u64 {
    let begins = |at: &u64| {
        let mut block = [Block::zeroed()];
        dev.read(*at, &mut block).unwrap();
        let [Block(bytes)] = &block;
        bytes.starts_with(b"SEGJ") && bytes[8..16] == seq.to_le_bytes()
    };
    (2..dev.block_count()).find(begins).unwrap()
}

/// Changes every bit, padding included: groups before the changed one stay; that group and later ones are
/// dropped. If it was durable, that is damage.
#[test]
fn every_flipped_bit_of_a_group_is_seen() {
    for durable in [false, true] {
        let dev = device(64);
        let journal = create(&dev);
        for epoch in 1..=3 {
            journal.append(&group(epoch, 1)).unwrap();
            if durable {
                journal.flush().unwrap();
            }
        }
        journal.flush().unwrap();
        let second = 2 + 1;
        for bit in 0..4096 * 8 {
            flip(&*dev, second, bit);
            if durable {
                let why = stale(open(&dev, 1));
                assert_eq!(why, Stale::DamagedGroup { seq: 2, at: second, kept: 1 }, "bit {bit}");
                assert!(why.is_damage());
            } else {
                assert_eq!(epochs(&replay(open(&dev, 1))), [1], "bit {bit}");
            }
            flip(&*dev, second, bit);
        }
        assert_eq!(epochs(&replay(open(&dev, 1))), [1, 2, 3]);
    }
}

/// Large groups, a group around the end of the ring, and the last one, which no group follows. Discarded
/// groups are not accepted again.
#[test]
fn a_damaged_group_is_given_up_with_all_behind_it() {
    for (blocks, before) in [(1, 1), (5, 3), (9, 4), (9, 5)] {
        let dev = device(64);
        let journal = create(&dev);
        // The log begins later in the ring.
        for version in 2..2 + before {
            journal.append(&group(version, blocks)).unwrap();
            journal.intend(intent(version, version)).unwrap();
            journal.flush().unwrap();
            journal.reclaim().unwrap();
            journal.flush().unwrap();
        }
        let first = 2 + before;
        for epoch in first..first + 3 {
            journal.append(&group(epoch, blocks)).unwrap();
            journal.flush().unwrap();
        }
        let found = replay(open(&dev, first - 1));
        let places: Vec<u64> = found.accepted().iter().map(|a| place(&*dev, a.seq)).collect();
        let [_, second, third] = places[..] else { panic!("{places:?}") };
        flip(&*dev, third, 5);
        assert_eq!(
            epochs(&replay(open(&dev, first - 1))),
            [first, first + 1],
            "nothing tells that it was whole"
        );
        flip(&*dev, third, 5);
        flip(&*dev, second, 5);
        let why = stale(open(&dev, first - 1));
        assert!(matches!(why, Stale::DamagedGroup { at, .. } if at == second), "{why}");
        let (area, cp) = (Area::whole(dev.clone()), checkpoint(first - 1));
        Journal::give_up_damage(area.clone(), &cp, &*device(8)).unwrap();
        assert_eq!(epochs(&replay(open(&dev, first - 1))), [first]);
        flip(&*dev, second, 5);
        assert_eq!(epochs(&replay(open(&dev, first - 1))), [first], "given up for good");
    }
}

/// One of both superblocks is damaged at a time: the other one is used.
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
