//! Journals that must have no effect.
use crate::rig::*;
use segno_device::{BlockDevice, MemDevice};
use segno_format::{Block, BlockAddr};
use segno_journal::{Area, Checkpoint, CpIntent, Journal, Lost, Missing, Opened, Stale};
use std::sync::Arc;

/// The changes that [`filled`] puts into a journal.
const THREE: Lost = Lost { records: 3, inodes: 1 };

fn filled(dev: &Arc<MemDevice>) -> Journal {
    let journal = create(dev);
    (1..=3).for_each(|e| {
        journal.append(&group(e, 1)).unwrap();
    });
    journal.flush().unwrap();
    journal
}

fn open_as(dev: &Arc<MemDevice>, cp: &Checkpoint) -> Opened {
    Journal::open(Area::whole(dev.clone()), cp, &MemDevice::new(8)).unwrap()
}

#[test]
fn nobody_else_was_there() {
    let dev = device(64);
    filled(&dev);
    assert_eq!(epochs(&replay(open(&dev, 1))), [1, 2, 3]);
}

#[test]
fn another_system_wrote_a_checkpoint() {
    let dev = device(64);
    filled(&dev);
    assert_eq!(stale(open(&dev, 2)), Stale::OtherCheckpoint { journal: 1, volume: 2, lost: THREE });
}

/// We had announced the same version when we were cut off.
#[test]
fn another_system_wrote_the_checkpoint_that_was_announced() {
    let dev = device(64);
    let journal = filled(&dev);
    journal.intend(intent(2, 3)).unwrap();
    journal.flush().unwrap();
    assert!(replay(open(&dev, 2)).accepted().is_empty(), "ours");
    assert_eq!(epochs(&replay(open(&dev, 1))), [1, 2, 3], "never written");
    let theirs = Checkpoint { crc: 1, ..checkpoint(2) };
    assert_eq!(stale(open_as(&dev, &theirs)), Stale::OtherCheckpoint { journal: 1, volume: 2, lost: THREE });
}

#[test]
fn a_repair_kept_the_version() {
    let dev = device(64);
    filled(&dev);
    let repaired = Checkpoint { crc: 1, ..checkpoint(1) };
    assert_eq!(
        stale(open_as(&dev, &repaired)),
        Stale::OtherCheckpoint { journal: 1, volume: 1, lost: THREE }
    );
}

#[test]
fn another_system_wrote_and_was_cut_off_before_its_checkpoint() {
    let (dev, data) = (device(64), device(32));
    let journal = filled(&dev);
    let canaries = (10..16).map(|a| canary(&*data, a)).collect();
    journal.intend(CpIntent { canaries, ..intent(2, 3) }).unwrap();
    journal.append(&group(4, 1)).unwrap();
    journal.flush().unwrap();
    let open = || Journal::open(Area::whole(dev.clone()), &checkpoint(2), &*data).unwrap();
    assert_eq!(epochs(&replay(open())), [4]);
    let mut block = Block::zeroed();
    block.0[100] = 1;
    data.write(13, &[&block]).unwrap();
    assert_eq!(
        stale(open()),
        Stale::ForeignWrite { at: BlockAddr(13), lost: Lost { records: 1, inodes: 1 } }
    );
}

#[test]
fn an_older_image_was_put_back() {
    let dev = device(64);
    let journal = filled(&dev);
    journal.intend(intent(2, 3)).unwrap();
    journal.flush().unwrap();
    journal.reclaim().unwrap();
    journal.append(&group(4, 1)).unwrap();
    journal.flush().unwrap();
    let ahead = Stale::AheadOfVolume { journal: 2, volume: 1, records: 1, inodes: 1 };
    assert_eq!((stale(open(&dev, 1)), ahead.is_damage(), ahead.was_in_use()), (ahead, true, true));
}

/// It was empty, and the checkpoint of the unmount was lost.
#[test]
fn a_clean_journal_is_ahead_of_an_older_volume() {
    let dev = device(64);
    let journal = filled(&dev);
    journal.intend(intent(2, 3)).unwrap();
    journal.flush().unwrap();
    journal.close().unwrap();
    assert_eq!(stale(open(&dev, 1)), Stale::AheadOfVolume { journal: 2, volume: 1, records: 0, inodes: 0 });
}

/// The newest pack was unreadable, so the volume fell back to one whose groups were overwritten.
#[test]
fn what_the_older_checkpoint_needs_was_given_back() {
    let dev = device(64);
    let journal = filled(&dev);
    journal.intend(intent(2, 2)).unwrap();
    journal.flush().unwrap();
    journal.reclaim().unwrap();
    journal.intend(intent(3, 3)).unwrap();
    journal.flush().unwrap();
    journal.reclaim().unwrap();
    journal.flush().unwrap();
    assert!(stale(open(&dev, 2)).is_damage());
}

#[test]
fn a_clean_volume_was_used_without_it() {
    let dev = device(64);
    let journal = filled(&dev);
    journal.intend(intent(2, 3)).unwrap();
    journal.flush().unwrap();
    journal.close().unwrap();
    assert_eq!(stale(open(&dev, 9)), Stale::Unused);
}

/// The format is repeated under the same id: its first checkpoint may have any version.
#[test]
fn a_volume_that_was_formatted_again_is_no_evidence_of_damage() {
    for closed in [false, true] {
        let dev = device(64);
        let journal = filled(&dev);
        journal.intend(intent(2, 3)).unwrap();
        journal.flush().unwrap();
        journal.reclaim().unwrap();
        journal.append(&group(4, 1)).unwrap();
        journal.flush().unwrap();
        if closed {
            journal.close().unwrap();
        }
        for version in [1 << 30, 7, 1 << 40] {
            let again = Checkpoint { is_first: true, ..checkpoint(version) };
            let found = stale(open_as(&dev, &again));
            assert_eq!((found, found.is_damage(), found.was_in_use()), (Stale::Reformatted, false, false));
            assert_ne!(
                stale(open(&dev, version)),
                Stale::Reformatted,
                "a later checkpoint of version {version}"
            );
        }
    }
}

/// A volume whose first mount was cut off: its second checkpoint cannot be read, and that of the format is in
/// force.
#[test]
fn the_lost_checkpoint_after_the_first_is_damage() {
    let dev = device(64);
    let journal = filled(&dev);
    journal.intend(intent(2, 3)).unwrap();
    journal.flush().unwrap();
    journal.reclaim().unwrap();
    journal.append(&group(4, 1)).unwrap();
    journal.flush().unwrap();
    let first = Checkpoint { is_first: true, ..checkpoint(1) };
    let ahead = Stale::AheadOfVolume { journal: 2, volume: 1, records: 1, inodes: 1 };
    assert_eq!(stale(open_as(&dev, &first)), ahead);
}

#[test]
fn equal_versions_with_different_checksums_are_said_to_be_that() {
    let lost = THREE;
    let said = |journal, volume| Stale::OtherCheckpoint { journal, volume, lost }.to_string();
    assert_eq!(
        said(0x5A, 0x5A),
        "the volume was checkpointed without it (both have checkpoint 0x5a, with different checksums); 3 committed changes of 1 \
         inodes, which only it had, are lost"
    );
    assert!(said(0x5A, 0x5B).contains("(its checkpoint 0x5a, the volume's 0x5b)"), "{}", said(0x5A, 0x5B));
}

#[test]
fn changes_that_the_volume_lacks_are_those_of_a_journal_with_effect() {
    let dev = device(64);
    let changes = |version| {
        Journal::changes(Area::whole(dev.clone()), &checkpoint(version), &MemDevice::new(8)).unwrap()
    };
    assert_eq!(changes(1), 0, "no journal");
    filled(&dev);
    assert_eq!((changes(1), changes(2)), (3, 0));
    assert_eq!(
        Journal::changes(Area::whole(device(4)), &checkpoint(1), &MemDevice::new(8)).unwrap(),
        0,
        "too small"
    );
}

/// A mount that is refused, and a check, name it.
#[test]
fn a_journal_that_was_in_use_is_missing_where_there_is_none_or_another() {
    let of = |dev: &Arc<MemDevice>, cp: &Checkpoint| {
        Missing::of(&Journal::open(Area::whole(dev.clone()), cp, &MemDevice::new(8)))
    };
    assert_eq!(of(&device(4), &checkpoint(1)), Some(Missing::TooSmall { blocks: 4 }));
    assert_eq!(of(&device(64), &checkpoint(1)), Some(Missing::Absent { why: "no magic" }));
    let dev = device(64);
    let journal = filled(&dev);
    assert_eq!((of(&dev, &checkpoint(1)), of(&dev, &checkpoint(2))), (None, None));
    let other = Checkpoint { volume: [8; 16], ..checkpoint(1) };
    assert_eq!(of(&dev, &other), Some(Missing::Stale(Stale::OtherVolume)));
    journal.intend(intent(2, 3)).unwrap();
    journal.flush().unwrap();
    journal.close().unwrap();
    assert_eq!(of(&dev, &checkpoint(9)), Some(Missing::Stale(Stale::Unused)));
}

#[test]
fn a_journal_of_another_volume() {
    let dev = device(64);
    filled(&dev);
    let other = Checkpoint { volume: [8; 16], ..checkpoint(1) };
    assert_eq!(stale(open_as(&dev, &other)), Stale::OtherVolume);
}

#[test]
fn an_area_that_was_cut_short() {
    let dev = device(64);
    filled(&dev);
    let short = device(32);
    for at in 0..32 {
        let mut block = [Block::zeroed()];
        dev.read(at, &mut block).unwrap();
        short.write(at, &[&block[0]]).unwrap();
    }
    assert_eq!(stale(open(&short, 1)), Stale::Truncated);
}

/// A new journal over an old one: nothing of the old is ever found, though its blocks are all there.
#[test]
fn a_new_journal_forgets_the_old() {
    let dev = device(64);
    filled(&dev);
    let space = Area::whole(dev.clone()).vacant(&checkpoint(5).volume).unwrap();
    Journal::create(space, &checkpoint(5), [1; 16]).unwrap();
    assert!(replay(open(&dev, 5)).accepted().is_empty());
}

/// A mapping with checksums counts only with its data.
#[test]
fn data_that_did_not_arrive_ends_the_log() {
    let (dev, data) = (device(64), device(32));
    let journal = create(&dev);
    let mut content = Block::zeroed();
    content.0.fill(3);
    data.write(20, &[&content]).unwrap();
    journal.append(&mapping(1, 20, &content)).unwrap();
    journal.append(&mapping(2, 21, &content)).unwrap();
    journal.append(&mapping(3, 20, &content)).unwrap();
    let found = replay(Journal::open(Area::whole(dev.clone()), &checkpoint(1), &*data).unwrap());
    assert_eq!(epochs(&found), [1]);
    // Groups that were cut off never continue the log of a later mount.
    let journal = found.into_journal().unwrap();
    journal.append(&mapping(2, 20, &content)).unwrap();
    journal.flush().unwrap();
    let found = replay(Journal::open(Area::whole(dev.clone()), &checkpoint(1), &*data).unwrap());
    assert_eq!(epochs(&found), [1, 2]);
}
