//! Tables as other programs write them, and hostile tables. Tests of the command line have layouts of sfdisk
//! and parted; tests of the Python package have super images that other readers accept or refuse.
use super::source::{Source, open};
use super::*;
use crate::part_error::TableKind;
use gpt::GptConfig;
use gpt::disk::LogicalBlockSize;
use gpt::partition_types::LINUX_FS;
use proptest::prelude::*;
use segno_testkit::super_image::{SuperPartition, super_image};
use std::io::Write;
use uuid::Uuid;

const MIB: u64 = 1 << 20;

/// A source in memory.
struct Bytes(Vec<u8>);

impl Source for Bytes {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let at = usize::try_from(offset).ok().and_then(|at| self.0.get(at..)?.get(..into.len()));
        into.copy_from_slice(at.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

fn found(bytes: &Bytes) -> Result<Table, PartError> {
    read_table(bytes).unwrap()
}

fn ranges(bytes: &Bytes, name: &str) -> Result<Vec<Range<u64>>, PartError> {
    found(bytes).and_then(|table| table.find(name, bytes)).and_then(|ranges| check(ranges, bytes.len()))
}

fn gpt_of(size: LogicalBlockSize, entries: &[(&str, u64)]) -> Bytes {
    let config = GptConfig::new().writable(true).logical_block_size(size);
    let mut disk = config.create_from_device(io::Cursor::new(vec![0; 16 << 20]), None).unwrap();
    for (name, mib) in entries {
        disk.add_partition(name, mib * MIB, LINUX_FS, 0, None).unwrap();
    }
    Bytes(disk.write().unwrap().into_inner())
}

fn mbr_of(entries: &[(u64, u8, u32, u32)], bytes: usize) -> Bytes {
    let mut disk = vec![0; bytes];
    let mut used = std::collections::HashMap::<u64, usize>::new();
    for &(record, kind, start, sectors) in entries {
        let at = (record * 512) as usize;
        let entry = used.entry(record).or_default();
        let place = at + 446 + 16 * *entry;
        *entry += 1;
        disk[place + 4] = kind;
        disk[place + 8..place + 12].copy_from_slice(&start.to_le_bytes());
        disk[place + 12..place + 16].copy_from_slice(&sectors.to_le_bytes());
        disk[at + 510..at + 512].copy_from_slice(&[0x55, 0xAA]);
    }
    Bytes(disk)
}

/// The partitions of a slot.
type Slot<'a> = &'a [SuperPartition<'a>];

fn super_of(slots: &[Slot<'_>], bytes: usize) -> Bytes {
    Bytes(super_image(slots, bytes))
}

#[test]
fn partitions_of_a_gpt_are_found_by_number_name_and_uuid() {
    for size in [LogicalBlockSize::Lb512, LogicalBlockSize::Lb4096] {
        let disk = gpt_of(size, &[("boot", 2), ("root fs", 4)]);
        let table = found(&disk).unwrap();
        let [_, root] = table.partitions.as_slice() else { panic!("{table:?}") };
        let own = root.extents.clone().unwrap();
        assert_eq!(own[0].end - own[0].start, 4 * MIB, "{size}");
        let uuid = root.uuid.unwrap().to_string().to_uppercase();
        for name in ["2", "root fs", uuid.as_str()] {
            assert_eq!(ranges(&disk, name).as_ref(), Ok(&own), "{name}");
        }
    }
}

#[test]
fn a_gpt_is_read_from_its_backup_and_not_from_a_boot_record() {
    let mut disk = gpt_of(LogicalBlockSize::Lb512, &[("a", 2)]);
    let whole = found(&disk);
    disk.0[512 + 40] ^= 1;
    assert_eq!(found(&disk), whole);
    let last = disk.0.len() - 512;
    disk.0[last + 40] ^= 1;
    assert!(matches!(found(&disk), Err(PartError::Damaged { kind: TableKind::Gpt, .. })));
    // Without both headers, the protective boot record shows that there was a table.
    let mut boot = mbr_of(&[(0, 0xEE, 1, 100)], 1 << 20);
    assert!(matches!(found(&boot), Err(PartError::Damaged { kind: TableKind::Gpt, .. })));
    boot.0[450] = 0x83;
    assert_eq!(found(&boot).unwrap().kind, TableKind::Mbr);
}

#[test]
fn a_gpt_with_more_entries_than_any_has_is_refused() {
    let mut disk = gpt_of(LogicalBlockSize::Lb512, &[("a", 2)]);
    for (field, value) in [(80, u32::MAX), (84, 256)] {
        let last = disk.0.len() - 512;
        for at in [512, last] {
            disk.0[at + field..][..4].copy_from_slice(&value.to_le_bytes());
            disk.0[at + 16..at + 20].fill(0);
            let sum = crc32(&disk.0[at..at + 92]);
            disk.0[at + 16..at + 20].copy_from_slice(&sum.to_le_bytes());
        }
        assert!(matches!(found(&disk), Err(PartError::Damaged { .. })), "{field}");
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |sum, b| {
        (0..8).fold(sum ^ u32::from(*b), |s, _| if s & 1 == 1 { s >> 1 ^ 0xEDB8_8320 } else { s >> 1 })
    }) ^ u32::MAX
}

#[test]
fn logical_partitions_of_a_boot_record_begin_with_number_5() {
    let disk = mbr_of(
        &[
            (0, 0x83, 64, 100),
            (0, 0x0F, 1000, 3000),
            (1000, 0x83, 8, 500),
            (1000, 0x05, 1000, 1000),
            (2000, 0x83, 16, 300),
        ],
        4000 * 512,
    );
    let sector = |start: u64, sectors: u64| Ok(one(start * 512, sectors * 512));
    assert_eq!(ranges(&disk, "1"), sector(64, 100));
    assert_eq!(ranges(&disk, "5"), sector(1008, 500));
    assert_eq!(ranges(&disk, "6"), sector(2016, 300));
    assert!(matches!(ranges(&disk, "2"), Err(PartError::NoEntry { have, .. }) if have == ["1", "5", "6"]));
}

#[test]
fn a_loop_of_boot_records_ends() {
    for next in [0, 1000] {
        let disk = mbr_of(
            &[
                (0, 0x05, 1000, 3000),
                (1000, 0x83, 8, 1),
                (1000, 0x05, 1000, 9),
                (2000, 0x83, 8, 1),
                (2000, 0x05, next, 9),
            ],
            4000 * 512,
        );
        assert!(matches!(found(&disk), Err(PartError::Damaged { kind: TableKind::Mbr, .. })), "{next}");
    }
}

#[test]
fn partitions_that_overlap_or_end_behind_the_disk_are_refused() {
    let disk = mbr_of(
        &[(0, 0x83, 64, 100), (0, 0x83, 163, 10), (0, 0x83, 200, 10_000), (0, 0x83, 180, 5)],
        4000 * 512,
    );
    assert!(matches!(ranges(&disk, "1"), Err(PartError::Overlap { .. })));
    assert!(matches!(ranges(&disk, "2"), Err(PartError::Overlap { .. })));
    assert!(matches!(ranges(&disk, "3"), Err(PartError::Beyond { len, .. }) if len == 4000 * 512));
    assert_eq!(ranges(&disk, "4"), Ok(one(180 * 512, 5 * 512)));
}

#[test]
fn a_boot_sector_of_a_file_system_is_no_table() {
    let mut disk = mbr_of(&[(0, 0x83, 64, 100)], 1 << 20);
    // Code where entries of partitions have their flag.
    disk.0[462] = 0x33;
    assert_eq!(found(&disk), Err(PartError::NoTable));
    assert_eq!(found(&Bytes(vec![0; 1 << 20])), Err(PartError::NoTable));
    assert_eq!(found(&Bytes(Vec::new())), Err(PartError::NoTable));
}

#[test]
fn entries_of_a_super_image_are_found_with_and_without_their_slot() {
    let old: Slot<'_> = &[
        ("vendor_a", 0, &[(2048, 800, 0), (4096, 8, 0), (2848, 16, 0)]),
        ("vendor_b", 0, &[]),
        ("odm", 2, &[(8192, 8, 0)]),
    ];
    let new: Slot<'_> = &[("vendor_b", 0, &[(2048, 8, 0)]), ("vendor_a", 0, &[])];
    let disk = super_of(&[old, new], 8 << 20);
    let pieces = [2048..2848, 4096..4104, 2848..2864].map(|p: Range<u64>| p.start * 512..p.end * 512);
    assert_eq!(ranges(&disk, "vendor_a"), Ok(pieces.to_vec()));
    // The second slot has its own table, in which the same room may have another use.
    assert_eq!(ranges(&disk, "vendor_b"), Ok(one(2048 * 512, 4096)));
    assert!(matches!(ranges(&disk, "vendor"), Err(PartError::Ambiguous { which, .. }) if which.len() == 2));
    assert_eq!(ranges(&disk, "odm_a"), Ok(one(8192 * 512, 4096)));
    assert_eq!(ranges(&disk, "odm"), ranges(&disk, "odm_a"));
    let one_slot = super_of(&[old], 8 << 20);
    assert_eq!(ranges(&one_slot, "vendor"), Ok(pieces.to_vec()));
    assert_eq!(ranges(&one_slot, "vendor_b"), Err(PartError::Empty));
}

#[test]
fn copies_of_the_metadata_of_a_super_image_are_used() {
    let mut disk = super_of(&[&[("a", 0, &[(2048, 8, 0)])]], 4 << 20);
    let whole = found(&disk);
    for at in [4096 + 44, 12_288 + 130] {
        disk.0[at] ^= 1;
        assert_eq!(found(&disk), whole, "{at}");
    }
    disk.0[12_288 + 65_536 + 130] ^= 1;
    assert!(matches!(found(&disk), Err(PartError::Damaged { kind: TableKind::Super, .. })));
}

#[test]
fn a_partition_of_a_super_image_that_lies_is_refused() {
    let disk = super_of(
        &[&[
            ("twice", 0, &[(2048, 16, 0), (2056, 16, 0)]),
            ("zero", 0, &[(0, 8, 1)]),
            ("far", 0, &[(1 << 40, 8, 0)]),
            ("part", 0, &[(3000, 8, 0), (3100, 3, 0)]),
            ("other", 0, &[(3101, 8, 0)]),
        ]],
        4 << 20,
    );
    assert!(matches!(ranges(&disk, "twice"), Err(PartError::Overlap { .. })));
    assert_eq!(ranges(&disk, "zero"), Err(PartError::Elsewhere));
    assert!(matches!(ranges(&disk, "far"), Err(PartError::Beyond { .. })));
    assert!(matches!(ranges(&disk, "part"), Err(PartError::Overlap { .. })));
    let alone = super_of(&[&[("part", 0, &[(3000, 8, 0), (3100, 3, 0)])]], 4 << 20);
    assert_eq!(ranges(&alone, "part"), Err(PartError::Pieces));
}

#[test]
fn what_begins_at_a_byte_ends_where_its_entry_does() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let disk = mbr_of(&[(0, 0x83, 64, 128)], 1 << 20);
    file.write_all(&disk.0).unwrap();
    let at = |offset, len| Location::bytes(file.path(), offset, len).extents().map(|e| e.ranges);
    assert_eq!(at(64 * 512, None).unwrap(), one(64 * 512, 128 * 512));
    assert_eq!(at(64 * 512, Some(4096)).unwrap(), one(64 * 512, 4096));
    for (offset, len, why) in [
        (4096, None, "--length says where the volume ends"),
        (4096, Some(1 << 20), "ends at byte 1048576"),
        (4096, Some(0), "its length is 0"),
        (u64::MAX, Some(4096), "its length is 0"),
    ] {
        let said = at(offset, len).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
    let len = open(file.path()).unwrap().len();
    assert_eq!(Location::of(file.path()).extents().unwrap().ranges, vec![WHOLE]);
    assert_eq!(len, 1 << 20);
}

#[test]
fn uuids_are_as_the_partition_table_prints_them() {
    let disk = gpt_of(LogicalBlockSize::Lb512, &[("a", 2)]);
    // The first three fields of the 16 bytes are little-endian.
    let raw: [u8; 16] = disk.0[1024 + 16..1024 + 32].try_into().unwrap();
    assert_eq!(found(&disk).unwrap().partitions[0].uuid, Some(Uuid::from_bytes_le(raw)));
}

proptest! {
    /// For any bytes in a table, reading it returns a result.
    #[test]
    fn any_bytes_are_safe(
        kind in 0..3usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..24),
    ) {
        let mut disk = match kind {
            0 => gpt_of(LogicalBlockSize::Lb512, &[("a", 2), ("b", 2)]),
            1 => mbr_of(&[(0, 0x83, 64, 100), (0, 5, 1000, 900), (1000, 0x83, 8, 50), (1000, 5, 400, 300), (1400, 0x83, 4, 4)], 4000 * 512),
            _ => super_of(&[&[("a", 0, &[(2048, 8, 0), (4000, 8, 0)]), ("b", 0, &[(2056, 8, 0)])]], 4 << 20),
        };
        let marks: Vec<usize> = (0..disk.0.len()).filter(|&i| disk.0[i] != 0).collect();
        for (place, value, near) in &changes {
            let at = if *near { marks[place.index(marks.len())] } else { place.index(disk.0.len().min(1 << 17)) };
            disk.0[at] = *value;
        }
        if let Ok(table) = found(&disk) {
            for partition in &table.partitions {
                let sound = table.sound(partition).and_then(|ranges| check(ranges, disk.len()));
                if let Ok(ranges) = sound {
                    prop_assert!(ranges.iter().all(|r| r.end <= disk.len() && r.start < r.end));
                }
            }
        }
    }
}

#[test]
fn a_location_is_the_path_that_means_it() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("a");
    std::fs::write(&image, "").unwrap();
    for (name, part) in [
        ("a", None),
        ("a#1", Some(PartSelector::Entry("1".into()))),
        ("a#vendor_a", Some(PartSelector::Entry("vendor_a".into()))),
        ("a#@1048576", Some(PartSelector::Bytes { offset: 1 << 20, len: None })),
        ("a#@512+4096", Some(PartSelector::Bytes { offset: 512, len: Some(4096) })),
        ("a#@x", Some(PartSelector::Entry("@x".into()))),
    ] {
        let found = Location::of(&dir.path().join(name));
        assert_eq!(found, Location { file: image.clone(), part }, "{name}");
        assert_eq!(found.path(), dir.path().join(name));
    }
}

#[test]
fn a_file_of_the_whole_name_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let [image, named] = ["a", "a#1"].map(|name| dir.path().join(name));
    std::fs::write(&image, "").unwrap();
    assert!(Location::of(&named).is_part());
    std::fs::write(&named, "").unwrap();
    assert_eq!(Location::of(&named), Location { file: named, part: None });
    // Nothing of that name, with and without the mark.
    for name in ["b#1", "a#", "#1"] {
        assert!(!Location::of(&dir.path().join(name)).is_part(), "{name}");
    }
}
