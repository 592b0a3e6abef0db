//! GUID partition tables, with the crate `gpt`; its assumptions are checked first.
use super::source::{Cursor, Source};
use super::table::{Partition, Table};
use crate::part_error::{PartError, TableKind};
use gpt::disk::LogicalBlockSize;
use gpt::header::{Header, HeaderError, read_header_from_arbitrary_device};
use gpt::partition::file_read_partitions;
use std::{io, iter};

const SECTOR_SIZES: [LogicalBlockSize; 2] = [LogicalBlockSize::Lb512, LogicalBlockSize::Lb4096];

/// Bytes of an entry; others are allowed and not used.
const ENTRY: u32 = 128;
/// Most entries that are read; usual are 128.
const ENTRIES: u32 = 4096;

/// Where a header is.
#[derive(Clone, Copy)]
enum Copy {
    /// In the second sector.
    Primary,
    /// In the last one.
    Backup,
}

pub(super) fn read(source: &dyn Source) -> io::Result<Option<Result<Table, PartError>>> {
    let mut damage = None;
    for (copy, size) in [Copy::Primary, Copy::Backup].into_iter().flat_map(|c| SECTOR_SIZES.map(|s| (c, s))) {
        match header(source, copy, size)? {
            None => {}
            Some(Ok(header)) => match entries(source, &header, size) {
                Ok(partitions) => {
                    return Ok(Some(Ok(Table { kind: TableKind::Gpt, partitions, bytes: source.len() })));
                }
                Err(why) => damage = damage.or(Some(why)),
            },
            Some(Err(why)) => damage = damage.or(Some(why)),
        }
    }
    Ok(damage.map(|why| Err(PartError::Damaged { kind: TableKind::Gpt, why })))
}

/// The header: `None` without one, an error if it is damaged.
fn header(
    source: &dyn Source,
    copy: Copy,
    size: LogicalBlockSize,
) -> io::Result<Option<Result<Header, String>>> {
    let sectors = source.len() / size.as_u64();
    let start = match (copy, sectors.checked_sub(2)) {
        (_, None) => return Ok(None),
        (Copy::Primary, _) => 0,
        (Copy::Backup, Some(before)) => before.saturating_mul(size.as_u64()),
    };
    match read_header_from_arbitrary_device(&mut Cursor::from(source, start), size) {
        Ok(header) => Ok(Some(check(header))),
        Err(HeaderError::Io(e)) => Err(e),
        Err(HeaderError::InvalidGptSignature) => Ok(None),
        Err(e) => Ok(Some(Err(e.to_string()))),
    }
}

fn check(header: Header) -> Result<Header, String> {
    if header.part_size != ENTRY {
        return Err(format!("its entries have {} bytes instead of {ENTRY}", header.part_size));
    }
    if header.num_parts > ENTRIES {
        return Err(format!("it has {} entries, more than {ENTRIES}", header.num_parts));
    }
    Ok(header)
}

fn entries(source: &dyn Source, header: &Header, size: LogicalBlockSize) -> Result<Vec<Partition>, String> {
    let entries =
        file_read_partitions(&mut Cursor::from(source, 0), header, size).map_err(|e| e.to_string())?;
    let used = entries.into_iter().filter(|(_, entry)| entry.is_used());
    Ok(used
        .map(|(number, entry)| {
            let start = entry.first_lba.saturating_mul(size.as_u64());
            let end = entry.last_lba.saturating_add(1).saturating_mul(size.as_u64());
            let (name, uuid) = (entry.name, Some(entry.part_guid));
            Partition {
                number: Some(number),
                name,
                uuid,
                extents: Some(iter::once(start..end).collect()),
                set: 0,
            }
        })
        .collect())
}
