//! Partition tables of master boot records, and the chain of boot records of an extended partition. The code
//! is ours, because the one maintained crate adds sectors without a check and decodes with an unmaintained
//! crate.
use super::source::Source;
use super::table::{Partition, Table};
use crate::part_error::{PartError, TableKind};
use std::collections::HashSet;
use std::io;
use std::ops::Range;

const SECTOR: u64 = 512;
/// Types of partitions that hold a chain of others.
const EXTENDED: [u8; 3] = [0x05, 0x0F, 0x85];
/// The type of the entry that protects a GUID partition table.
const PROTECTIVE: u8 = 0xEE;
/// Number of the first partition in a chain.
const FIRST_LOGICAL: u32 = 5;
/// Most partitions of a chain.
const LOGICAL: usize = 256;

/// An entry in use.
#[derive(Clone, Copy)]
struct Entry {
    kind: u8,
    start: u32,
    sectors: u32,
}

impl Entry {
    fn of(bytes: [u8; 16]) -> Self {
        let [_, _, _, _, kind, _, _, _, s0, s1, s2, s3, n0, n1, n2, n3] = bytes;
        Self {
            kind,
            start: u32::from_le_bytes([s0, s1, s2, s3]),
            sectors: u32::from_le_bytes([n0, n1, n2, n3]),
        }
    }

    fn bytes(&self, from: u64) -> Range<u64> {
        let start = from.saturating_add(self.start.into()).saturating_mul(SECTOR);
        start..start.saturating_add(u64::from(self.sectors).saturating_mul(SECTOR))
    }
}

pub(super) fn read(source: &dyn Source) -> io::Result<Option<Result<Table, PartError>>> {
    let Some(entries) = record(source, 0)? else { return Ok(None) };
    if entries.iter().flatten().any(|e| e.kind == PROTECTIVE) {
        let why = "the table that its boot record announces is not there".to_owned();
        return Ok(Some(Err(PartError::Damaged { kind: TableKind::Gpt, why })));
    }
    if entries.iter().all(Option::is_none) {
        return Ok(None);
    }
    let numbered = (1..).zip(entries).filter_map(|(number, entry)| Some((number, entry?)));
    let (extended, primary): (Vec<_>, Vec<_>) = numbered.partition(|(_, e)| EXTENDED.contains(&e.kind));
    let mut all: Vec<(u32, Range<u64>)> = primary.iter().map(|(number, e)| (*number, e.bytes(0))).collect();
    if let Some((_, extended)) = extended.first() {
        match chain(source, extended.start)? {
            Ok(logical) => all.extend((FIRST_LOGICAL..).zip(logical)),
            Err(why) => {
                let why = why.to_owned();
                return Ok(Some(Err(PartError::Damaged { kind: TableKind::Mbr, why })));
            }
        }
    }
    let partition = |(number, bytes)| Partition {
        number: Some(number),
        name: String::new(),
        uuid: None,
        extents: Some(vec![bytes]),
        set: 0,
    };
    Ok(Some(Ok(Table {
        kind: TableKind::Mbr,
        partitions: all.into_iter().map(partition).collect(),
        bytes: source.len(),
    })))
}

/// The entries of the boot record in a sector; `None` without a boot record. Boot sectors of file systems
/// have the same signature.
fn record(source: &dyn Source, sector: u64) -> io::Result<Option<[Option<Entry>; 4]>> {
    const ENTRIES: Range<usize> = 446..510;
    let Some(bytes) = source.bytes(sector.saturating_mul(SECTOR), SECTOR as usize)? else { return Ok(None) };
    let entries = bytes.get(ENTRIES).unwrap_or_default().as_chunks::<16>().0;
    let [e0, e1, e2, e3] = entries else { return Ok(None) };
    let all = [e0, e1, e2, e3];
    // Only a flag of a bootable partition is possible.
    let possible = all.iter().all(|[flag, ..]| flag & 0x7F == 0);
    if !bytes.ends_with(&[0x55, 0xAA]) || !possible {
        return Ok(None);
    }
    let entry = |bytes: &[u8; 16]| Some(Entry::of(*bytes)).filter(|e| e.kind != 0 && e.sectors != 0);
    Ok(Some(all.map(entry)))
}

/// The partitions of an extended one. Each record has a partition, counted from the record, and the next
/// record, counted from the first.
fn chain(source: &dyn Source, first: u32) -> io::Result<Result<Vec<Range<u64>>, &'static str>> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut next = Some(u64::from(first));
    while let Some(at) = next {
        if !seen.insert(at) {
            return Ok(Err("the records of its extended partition form a loop"));
        }
        if found.len() == LOGICAL {
            return Ok(Err("its extended partition has more than 256 partitions"));
        }
        let Some([partition, link, ..]) = record(source, at)? else {
            // An extended partition may be empty.
            return Ok(if found.is_empty() {
                Ok(found)
            } else {
                Err("a record of its extended partition is missing")
            });
        };
        found.extend(partition.map(|e| e.bytes(at)));
        next = link.filter(|e| EXTENDED.contains(&e.kind)).map(|e| u64::from(first) + u64::from(e.start));
    }
    Ok(Ok(found))
}
