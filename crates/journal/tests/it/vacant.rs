//! The space for a journal, by its content.
use super::rig::{checkpoint, create, device, intent};
use segno_device::{BlockDevice, MemDevice};
use segno_format::Block;
use segno_journal::{About, Area, Checkpoint, Content, Error, Journal};
use std::sync::Arc;

const BLOCKS: u64 = 1024;

fn block(bytes: &[(usize, u8)]) -> Block {
    let mut block = Block::zeroed();
    bytes.iter().for_each(|&(at, byte)| block.0[at] = byte);
    block
}

fn holding(at: u64, block: &Block) -> Arc<MemDevice> {
    let dev = device(BLOCKS);
    dev.write(at, &[block]).unwrap();
    dev
}

fn other() -> [u8; 16] {
    [0xAB; 16]
}

/// A byte anywhere keeps the space from being taken, and the refusal names its block.
#[test]
fn data_anywhere_is_refused_and_left_alone() {
    for (at, byte) in [(0, 0), (1, 700), (2, 4095), (255, 1), (256, 0), (BLOCKS - 1, 4095)] {
        let dev = holding(at, &block(&[(byte, 7)]));
        match Area::whole(dev.clone()).vacant(&checkpoint(1).volume) {
            Err(Error::Occupied { at: found }) => assert_eq!(found, at),
            found => panic!("byte {byte} of block {at}: {found:?}"),
        }
        let mut back = [Block::zeroed()];
        dev.read(at, &mut back).unwrap();
        assert_eq!(back[0].0[byte], 7);
    }
    let tail = Area::tail(holding(600, &block(&[(9, 1)])), 512).unwrap();
    assert!(
        matches!(tail.vacant(&other()), Err(Error::Occupied { at: 600 })),
        "counted from the device's start"
    );
}

#[test]
fn zeros_and_an_own_journal_are_vacant() {
    let dev = device(BLOCKS);
    assert_eq!(Area::whole(dev.clone()).content(&checkpoint(1).volume).unwrap(), Content::Nothing);
    let journal = create(&dev);
    assert!(matches!(Area::whole(dev.clone()).content(&checkpoint(1).volume).unwrap(), Content::Own(_)));
    drop(journal);
    assert!(Area::whole(dev).vacant(&checkpoint(1).volume).is_ok());
}

/// A whole file belongs to the volume that its journal names. After the end of a volume, a closed journal is
/// left from the previous volume.
#[test]
fn a_journal_of_another_volume_is_replaced_only_behind_a_volume_and_closed() {
    for (start, clean) in [(0, false), (0, true), (512, false), (512, true)] {
        let dev = device(BLOCKS);
        let area = if start == 0 { Area::whole(dev) } else { Area::tail(dev, start).unwrap() };
        let space = area.clone().vacant(&checkpoint(1).volume).unwrap();
        let journal = Journal::create(space, &checkpoint(1), [9; 16]).unwrap();
        if clean {
            journal.close().unwrap();
        }
        match area.vacant(&other()) {
            Ok(_) => assert!(start > 0 && clean, "start {start}, clean {clean}"),
            Err(Error::OtherVolume { volume }) => {
                assert!(
                    volume == checkpoint(1).volume && !(start > 0 && clean),
                    "start {start}, clean {clean}"
                );
            }
            Err(e) => panic!("{e}"),
        }
    }
}

/// A journal may have a part of the space only; other data may follow it.
#[test]
fn a_journal_that_is_replaced_or_erased_leaves_what_follows_it() {
    for volume in [checkpoint(1).volume, other()] {
        let dev = device(BLOCKS);
        let area = Area::tail(dev.clone(), 512).unwrap();
        let space = area.clone().first(64).vacant(&checkpoint(1).volume).unwrap();
        Journal::create(space, &checkpoint(1), [9; 16]).unwrap().close().unwrap();
        assert_eq!(About::read(&area).unwrap().blocks(), 64);
        let follows = block(&[(0, 1), (4095, 2)]);
        dev.write(512 + 64, &[&follows]).unwrap();
        let again = Checkpoint { volume, ..checkpoint(2) };
        Journal::create(area.clone().vacant(&volume).unwrap(), &again, [8; 16]).unwrap().close().unwrap();
        assert_eq!((About::read(&area).unwrap().blocks(), About::read(&area).unwrap().volume), (64, volume));
        Journal::discard(&area).unwrap();
        let mut all = vec![Block::zeroed(); 512];
        dev.read(512, &mut all).unwrap();
        let left: Vec<usize> = (0..512).filter(|&at| !all[at].is_zero()).collect();
        assert!(left == [64] && all[64].0 == follows.0, "{left:?}");
    }
}

/// A power cut may keep either end of the first superblock. The next mount makes the journal again.
#[test]
fn a_cut_while_a_journal_is_made_leaves_the_space_vacant() {
    let dev = device(BLOCKS);
    drop(create(&dev));
    let mut both = [Block::zeroed(), Block::zeroed()];
    dev.read(0, &mut both).unwrap();
    let at = both.iter().position(|b| !b.is_zero()).unwrap();
    for kept in [0..512, 3584..4096] {
        let mut torn = Block::zeroed();
        torn.0[kept.clone()].copy_from_slice(&both[at].0[kept]);
        let space = Area::whole(holding(at as u64, &torn)).vacant(&other());
        assert!(space.is_ok(), "{space:?}");
    }
}

/// Earlier versions erased the superblocks alone.
#[test]
fn a_discarded_journal_leaves_zeros_and_one_without_superblocks_is_vacant() {
    let dev = device(BLOCKS);
    let journal = create(&dev);
    journal.intend(intent(2, 1)).unwrap();
    journal.flush().unwrap();
    drop(journal);
    let zero = Block::zeroed();
    let earlier = Arc::new(MemDevice::from_snapshot(&dev.snapshot()));
    earlier.write(0, &[&zero, &zero]).unwrap();
    assert!(Area::whole(earlier).vacant(&other()).is_ok());
    let area = Area::whole(dev.clone());
    Journal::discard(&area).unwrap();
    let mut all = vec![Block::zeroed(); BLOCKS as usize];
    dev.read(0, &mut all).unwrap();
    assert!(all.iter().all(Block::is_zero) && About::read(&area).is_err());
}

/// The rest of a sparse image may be larger than its host's storage.
#[test]
fn a_journal_takes_4_gib_of_a_larger_space() {
    const MOST: u64 = 1 << 20;
    let dev = device(4 * MOST);
    drop(Journal::create(
        Area::whole(dev.clone()).vacant(&checkpoint(1).volume).unwrap(),
        &checkpoint(1),
        [9; 16],
    ));
    assert_eq!(About::read(&Area::whole(dev.clone())).unwrap().bytes, (MOST - 2) * 4096);
    let journal = Journal::open(Area::whole(dev.clone()), &checkpoint(1), &*dev);
    assert!(journal.is_ok(), "{journal:?}");
}
