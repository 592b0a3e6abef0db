//! Which changes of the NAT become entries of the journal, and which are written in blocks.
use super::{geometries, large_blocks, volume};
use segno_format::nat::{NAT_JOURNAL_MAX, RawNatEntry, RawNatJournalEntry};
use segno_format::sit::{LogType, RawSitEntry, RawSitJournalEntry, SIT_JOURNAL_MAX};
use segno_format::summary::{JOURNAL_BYTES, Journal};
use segno_format::{BlockAddr, Ino, Nid, SegNo};
use segno_layout::{NatChanges, Pack, Sit, Summaries, certain, flip, nat_entries, sit_entries};
use std::collections::BTreeMap;

/// `count` entries, from the nid `first` on.
fn entries(first: u32, count: u32) -> Vec<(Nid, RawNatEntry)> {
    (first..first + count)
        .map(|nid| (Nid(nid), RawNatEntry::new(1, Ino(nid), BlockAddr(nid + 5000))))
        .collect()
}

/// The nids that go to the journal, and to each block.
fn placed(
    changed: &[(Nid, RawNatEntry)],
    journal: &[(Nid, RawNatEntry)],
    room: usize,
) -> (Vec<u32>, Vec<(u32, usize)>) {
    let journal = journal.iter().copied().collect::<BTreeMap<_, _>>();
    let found = NatChanges::place(changed.iter().copied(), journal, room, &volume(false).1.geo);
    let blocks = found.blocks.iter().map(|(b, set)| (*b, set.len())).collect();
    (found.journal.keys().map(|nid| nid.0).collect(), blocks)
}

#[test]
fn few_changes_join_the_journal_and_many_go_to_their_blocks() {
    let (few, far) = (entries(10, 3), entries(455 * 4, 2));
    assert_eq!(placed(&few, &far, NAT_JOURNAL_MAX), (vec![10, 11, 12, 1820, 1821], vec![]));
    // More than fit: the blocks with the fewest changes stay in the journal.
    let many = entries(455, 40);
    let all: Vec<_> = few.iter().chain(&many).copied().collect();
    assert_eq!(placed(&all, &far, NAT_JOURNAL_MAX), (vec![10, 11, 12, 1820, 1821], vec![(1, 40)]));
    // nat_bits do not cover a journal.
    assert_eq!(placed(&few, &far, 0), (vec![], vec![(0, 3), (4, 2)]));
    assert_eq!(placed(&[], &[], 0), (vec![], vec![]));
}

#[test]
fn a_change_replaces_the_entry_of_the_journal() {
    let (old, mut new) = (entries(10, 2), entries(10, 1));
    new[0].1.version = 77;
    for (room, in_block) in [(NAT_JOURNAL_MAX, false), (0, true)] {
        let journal = old.iter().copied().collect();
        let found = NatChanges::place(new.iter().copied(), journal, room, &volume(false).1.geo);
        let all: Vec<_> = match in_block {
            true => found.blocks.into_iter().flat_map(|(_, set)| set).collect(),
            false => found.journal.into_iter().collect(),
        };
        let versions: BTreeMap<u32, u8> = all.iter().map(|(nid, e)| (nid.0, e.version)).collect();
        assert_eq!((all.len(), versions), (2, BTreeMap::from([(10, 77), (11, 1)])), "{room}");
    }
}

fn nat_journal(entries: &[(Nid, RawNatEntry)], room: usize) -> Option<Journal<RawNatJournalEntry>> {
    let entries: Vec<_> = entries.iter().map(|(nid, entry)| RawNatJournalEntry::new(*nid, *entry)).collect();
    let mut area = vec![0; room];
    Journal::encode(&entries, &mut area).then(|| Journal::decode(&area))
}

fn sit_journal(entries: &[(SegNo, RawSitEntry)], room: usize) -> Option<Journal<RawSitJournalEntry>> {
    let entries: Vec<_> = entries.iter().map(|(seg, entry)| RawSitJournalEntry::new(*seg, *entry)).collect();
    let mut area = vec![0; room];
    Journal::encode(&entries, &mut area).then(|| Journal::decode(&area))
}

const ROOM: usize = JOURNAL_BYTES;

#[test]
fn journals_hold_what_the_size_of_a_block_allows() {
    let most = [("4 KiB", NAT_JOURNAL_MAX, SIT_JOURNAL_MAX), ("16 KiB", 157, 26), ("16 KiB, packed", 38, 6)];
    for ((name, geo), (expected, nats, sits)) in geometries().into_iter().zip(most) {
        assert_eq!(name, expected);
        let room = geo.summary_layout().journal_bytes();
        let nat = entries(3, nats as u32 + 1);
        let read = nat_entries(&nat_journal(&nat[..nats], room).unwrap(), &geo).unwrap();
        assert_eq!(read.into_iter().collect::<Vec<_>>(), nat[..nats], "{name}");
        assert!(nat_journal(&nat, room).is_none(), "{name}");
        let entry = |seg: u32| (SegNo(seg), RawSitEntry::new(LogType::WarmData, 0, &[0; 64], seg.into()));
        let sit: Vec<_> = (0..=sits as u32).map(entry).collect();
        let read = sit_entries(&sit_journal(&sit[..sits], room).unwrap(), &geo).unwrap();
        assert!(read.keys().copied().eq((0..sits as u32).map(SegNo)), "{name}");
        assert!(sit_journal(&sit, room).is_none(), "{name}");
    }
}

#[test]
fn of_two_entries_the_nat_has_the_first_and_the_sit_the_last() {
    let (_, sb) = volume(false);
    let mut twice = entries(10, 2);
    twice[1].0 = Nid(10);
    let first = nat_entries(&nat_journal(&twice, ROOM).unwrap(), &sb.geo).unwrap();
    assert_eq!(first, BTreeMap::from([twice[0]]));
    let entry = |mtime| (SegNo(1), RawSitEntry::new(LogType::WarmData, 0, &[0; 64], mtime));
    let last = sit_entries(&sit_journal(&[entry(1), entry(2)], ROOM).unwrap(), &sb.geo).unwrap();
    assert_eq!(last[&SegNo(1)].mtime.get(), 2);
}

#[test]
fn entries_that_cannot_be_are_damage() {
    let (_, sb) = volume(false);
    let good = nat_journal(&entries(3, 2), ROOM).unwrap();
    let (mut count, mut zero, mut beyond) = (good.clone(), good.clone(), good);
    count.count = NAT_JOURNAL_MAX as u16 + 1;
    zero.entries[1].nid.set(0);
    beyond.entries[1].nid.set(sb.geo.max_nid());
    for (why, journal) in [("entry count", count), ("nid", zero), ("nid", beyond)] {
        assert_eq!(nat_entries(&journal, &sb.geo).unwrap_err().why, why);
    }
    let one = [(SegNo(1), RawSitEntry::new(LogType::WarmData, 0, &[0; 64], 0))];
    let mut sit = sit_journal(&one, ROOM).unwrap();
    sit.entries[0].segno.set(sb.geo.segment_count_main);
    assert_eq!(sit_entries(&sit, &sb.geo).unwrap_err().why, "segment number");
    sit.count = SIT_JOURNAL_MAX as u16 + 1;
    assert_eq!(sit_entries(&sit, &sb.geo).unwrap_err().why, "entry count");
}

#[test]
fn a_flip_alternates_between_the_copies() {
    let mut bitmap = [0; 2];
    assert_eq!([flip(&mut bitmap, 9), flip(&mut bitmap, 9), flip(&mut bitmap, 9)], [true, false, true]);
    assert_eq!(bitmap, [0, 0b0100_0000]);
}

/// The judge of a repair reads the same one.
#[test]
fn of_two_sit_entries_for_a_segment_readers_of_damaged_volumes_take_the_first() {
    for (name, blocks, sb) in large_blocks() {
        let pack = certain(Pack::in_force(&blocks, &sb.geo)).unwrap();
        let mut summaries = Summaries::load(&pack);
        let entry = |valid: u8| RawSitJournalEntry {
            segno: 3.into(),
            entry: RawSitEntry::new(LogType::HotNode, valid.into(), &[valid; 64], 0),
        };
        summaries.sit.entries.splice(..0, [entry(1), entry(2)]);
        summaries.sit.count = 2;
        let sit = certain(Sit::load(&blocks, &sb.geo, &pack, &summaries));
        assert_eq!(sit.get(SegNo(3)).unwrap().valid_map, [1; 64], "{name}");
    }
}
