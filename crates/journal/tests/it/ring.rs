//! Appending, reclaiming, wrapping around.
use crate::rig::*;
use segno_format::Ino;
use segno_journal::{Error, Group, Kind, Record, Section};

#[test]
fn what_was_appended_is_found() {
    let dev = device(64);
    let journal = create(&dev);
    let groups: Vec<Group> = (1..=5).map(|e| group(e, e as usize)).collect();
    groups.iter().for_each(|g| {
        journal.append(g).unwrap();
    });
    journal.flush().unwrap();
    let replay = replay(open(&dev, 1));
    assert_eq!(replay.groups().map(Result::unwrap).collect::<Vec<_>>(), groups);
    assert_eq!((replay.boundary(), replay.last_epoch()), (0, 5));
}

#[test]
fn a_checkpoint_covers_its_epochs_only() {
    let dev = device(64);
    let journal = create(&dev);
    (1..=3).for_each(|e| {
        journal.append(&group(e, 1)).unwrap();
    });
    // An fsync took part of epoch 4 out before the boundary after 3.
    let mixed = Group {
        kind: Kind::Fsync,
        epoch: 3,
        sections: [3, 4]
            .map(|epoch| Section { ino: Ino(9), epoch, records: vec![Record::Nlink(epoch as i32)] })
            .into(),
    };
    journal.append(&mixed).unwrap();
    journal.intend(intent(2, 3)).unwrap();
    journal.append(&group(4, 1)).unwrap();
    journal.flush().unwrap();
    assert_eq!(epochs(&replay(open(&dev, 1))), [1, 2, 3, 4], "the old checkpoint needs all");
    let new = replay(open(&dev, 2));
    let found: Vec<Group> = new.groups().map(Result::unwrap).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].sections.iter().map(|s| s.epoch).collect::<Vec<_>>(), [4]);
    assert_eq!(found[1], group(4, 1));
    // Reclaiming makes room and changes nothing.
    let before = journal.usage();
    journal.reclaim().unwrap();
    journal.flush().unwrap();
    assert!(journal.usage().used < before.used);
    assert_eq!(epochs(&replay(open(&dev, 2))), [3, 4]);
}

#[test]
fn a_full_journal_says_so_and_a_checkpoint_empties_it() {
    let dev = device(2 + 16);
    let journal = create(&dev);
    let mut epoch = 0;
    let full = loop {
        epoch += 1;
        match journal.append(&group(epoch, 3)) {
            Ok(_) => {}
            Err(e) => break e,
        }
    };
    assert!(matches!(full, Error::Full { needed: 2, free: 0 }), "{full}");
    assert!(matches!(journal.append(&group(epoch, 40)), Err(Error::TooLarge { .. })));
    journal.intend(intent(2, epoch - 1)).unwrap();
    journal.flush().unwrap();
    journal.reclaim().unwrap();
    journal.append(&group(epoch, 12)).unwrap();
    journal.flush().unwrap();
    assert_eq!(epochs(&replay(open(&dev, 2))), [epoch]);
}

#[test]
fn a_section_whose_epoch_its_group_cannot_hold_is_not_appended() {
    let dev = device(64);
    let journal = create(&dev);
    let first = 5;
    let of = |epoch| Group {
        kind: Kind::Fsync,
        epoch: first,
        sections: vec![Section { ino: Ino(4), epoch, records: vec![Record::Nlink(1)] }],
    };
    for epoch in [first - 1, first + (1 << 32), u64::MAX] {
        match journal.append(&of(epoch)) {
            Err(Error::Epoch { section, group }) => assert_eq!((section, group), (epoch, first)),
            other => panic!("{epoch}: {other:?}"),
        }
    }
    let last = first + u64::from(u32::MAX);
    journal.append(&of(last)).unwrap();
    journal.flush().unwrap();
    let found: Vec<Group> = replay(open(&dev, 1)).groups().map(Result::unwrap).collect();
    assert_eq!(found, [of(last)]);
}

/// Many groups of all sizes in a small ring that wraps and is reopened often: replay has exactly the groups
/// after the checkpoint.
#[test]
fn a_small_ring_goes_around() {
    let dev = device(2 + 16);
    let mut journal = create(&dev);
    let (mut version, mut boundary) = (1, 0);
    for epoch in 1..=100_000u64 {
        let size = 1 + (epoch.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60) as usize % 13;
        while let Err(e) = journal.append(&group(epoch, size)) {
            assert!(matches!(e, Error::Full { .. }), "{e}");
            (version, boundary) = (version + 1, epoch - 1);
            journal.intend(intent(version, boundary)).unwrap();
            journal.flush().unwrap();
            journal.reclaim().unwrap();
        }
        journal.flush().unwrap();
        if epoch % 97 == 0 {
            let found = replay(open(&dev, version));
            assert_eq!(epochs(&found), (boundary + 1..=epoch).collect::<Vec<_>>());
            journal = found.into_journal().unwrap();
        }
    }
}

#[test]
fn an_epoch_of_many_megabytes_is_one() {
    let dev = device(2 + 8192);
    let journal = create(&dev);
    let large = group(1, 3000);
    journal.append(&large).unwrap();
    journal.append(&group(2, 1)).unwrap();
    journal.flush().unwrap();
    let found = replay(open(&dev, 1));
    assert!(found.accepted().len() > 3);
    let records: Vec<Record> = found
        .groups()
        .map(Result::unwrap)
        .filter(|g| g.epoch == 1)
        .flat_map(|g| g.sections)
        .flat_map(|s| s.records)
        .collect();
    assert_eq!(records, large.sections[0].records);
}

#[test]
fn a_clean_journal_is_empty() {
    let dev = device(64);
    let journal = create(&dev);
    journal.append(&group(1, 1)).unwrap();
    journal.intend(intent(2, 1)).unwrap();
    journal.flush().unwrap();
    journal.close().unwrap();
    let found = replay(open(&dev, 2));
    assert!(found.accepted().is_empty());
    let journal = found.into_journal().unwrap();
    assert_eq!(journal.next_epoch(), 2);
    journal.append(&group(2, 1)).unwrap();
    journal.flush().unwrap();
    assert_eq!(epochs(&replay(open(&dev, 2))), [2]);
}
