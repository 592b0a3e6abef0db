//! Metadata of Android super images: geometry, then a copy of the tables for each slot, all of it twice.
use super::source::Source;
use super::table::{Partition, Table};
use crate::part_error::{PartError, TableKind};
use segno_format::BLOCK_SIZE;
use sha2::{Digest, Sha256};
use std::io;
use std::ops::Range;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const SECTOR: u64 = 512;
/// Offsets of the geometry and its copy, one block each, after a block that boot loaders may use.
const GEOMETRY: [u64; 2] = [4096, 8192];
/// Where the tables begin.
const TABLES: u64 = 12_288;
const GEOMETRY_MAGIC: u32 = 0x616C_4467;
const HEADER_MAGIC: u32 = 0x414C_5030;
const MAJOR: u16 = 10;
/// Most bytes of the metadata of a slot, and most slots: usual are 65536 bytes and 2 or 3 slots.
const METADATA_MAX: u32 = 4 << 20;
const SLOTS: u32 = 32;
/// Most entries of an array: phones have some tens.
const ENTRIES: u32 = 4096;
/// Most pieces of a partition, each of which is opened.
const PIECES: usize = 128;

const SUFFIXED: u32 = 1 << 1;
const LINEAR: u32 = 0;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Geometry {
    magic: U32,
    struct_size: U32,
    checksum: [u8; 32],
    metadata_max_size: U32,
    slot_count: U32,
    logical_block_size: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Array {
    offset: U32,
    count: U32,
    entry_size: U32,
}

/// The part that all versions have.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: U32,
    major: U16,
    minor: U16,
    header_size: U32,
    header_checksum: [u8; 32],
    tables_size: U32,
    tables_checksum: [u8; 32],
    partitions: Array,
    extents: Array,
    groups: Array,
    block_devices: Array,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPartition {
    name: [u8; 36],
    attributes: U32,
    first_extent: U32,
    extents: U32,
    group: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawExtent {
    sectors: U64,
    kind: U32,
    first_sector: U64,
    device: U32,
}

/// Why metadata are of no use.
type Why = &'static str;

pub(super) fn read(source: &dyn Source) -> io::Result<Option<Result<Table, PartError>>> {
    let damaged = |why: Why| PartError::Damaged { kind: TableKind::Super, why: why.to_owned() };
    let geometry = match geometry(source)? {
        None => return Ok(None),
        Some(Err(why)) => return Ok(Some(Err(damaged(why)))),
        Some(Ok(geometry)) => geometry,
    };
    let slots: Vec<Result<Vec<Partition>, Why>> = (0..geometry.slot_count.get())
        .map(|slot| slot_of(source, &geometry, slot))
        .collect::<io::Result<_>>()?;
    Ok(Some(
        join(slots)
            .map(|partitions| Table { kind: TableKind::Super, partitions, bytes: source.len() })
            .map_err(damaged),
    ))
}

/// Partitions of slot b from its own tables, all others from the first readable slot.
fn join(slots: Vec<Result<Vec<Partition>, Why>>) -> Result<Vec<Partition>, Why> {
    let why = slots.iter().find_map(|slot| slot.as_ref().err().copied()).unwrap_or("it has no slots");
    let is_b = |p: &Partition| p.name.ends_with("_b");
    let b: Option<Vec<Partition>> = slots.get(1).and_then(|slot| slot.as_ref().ok()).cloned();
    let mut all = slots.into_iter().find_map(Result::ok).ok_or(why)?;
    if let Some(b) = b {
        all.retain(|p| !is_b(p));
        all.extend(b.into_iter().filter(is_b));
    }
    Ok(all)
}

/// The geometry: `None` without one, an error if it is damaged.
fn geometry(source: &dyn Source) -> io::Result<Option<Result<Geometry, Why>>> {
    let mut damage = None;
    for at in GEOMETRY {
        let Some(bytes) = source.bytes(at, BLOCK_SIZE)? else { continue };
        let Ok((geometry, _)) = Geometry::read_from_prefix(&bytes) else { continue };
        if geometry.magic.get() != GEOMETRY_MAGIC {
            continue;
        }
        match check_geometry(&geometry, &bytes) {
            Ok(()) => return Ok(Some(Ok(geometry))),
            Err(why) => damage = Some(Err(why)),
        }
    }
    Ok(damage)
}

fn check_geometry(geometry: &Geometry, bytes: &[u8]) -> Result<(), Why> {
    const CHECKSUM: Range<usize> = 8..40;
    let size = geometry.struct_size.get() as usize;
    if size < size_of::<Geometry>() || !has_checksum(bytes.get(..size), CHECKSUM, &geometry.checksum) {
        return Err("the checksum of its geometry does not match");
    }
    let max = geometry.metadata_max_size.get();
    if max > METADATA_MAX || !max.is_multiple_of(SECTOR as u32) || geometry.slot_count.get() > SLOTS {
        return Err("its geometry has an impossible size");
    }
    Ok(())
}

/// Whether bytes have this SHA-256 when the place of the checksum is zero.
fn has_checksum(bytes: Option<&[u8]>, place: Range<usize>, checksum: &[u8; 32]) -> bool {
    let Some(mut bytes) = bytes.map(<[u8]>::to_vec) else { return false };
    if let Some(place) = bytes.get_mut(place) {
        place.fill(0);
    }
    Sha256::digest(&bytes).as_slice() == checksum
}

/// The partitions of a slot, by its first copy or else by its second.
fn slot_of(source: &dyn Source, geometry: &Geometry, slot: u32) -> io::Result<Result<Vec<Partition>, Why>> {
    let (max, slots) = (u64::from(geometry.metadata_max_size.get()), u64::from(geometry.slot_count.get()));
    let mut found = Err("its tables are not there");
    for copy in [0, 1] {
        let at = TABLES.saturating_add((slots * copy + u64::from(slot)).saturating_mul(max));
        let Some(bytes) = source.bytes(at, max as usize)? else { continue };
        found = partitions(&bytes, slot);
        if found.is_ok() {
            break;
        }
    }
    Ok(found)
}

fn partitions(bytes: &[u8], slot: u32) -> Result<Vec<Partition>, Why> {
    let (header, tables) = header(bytes)?;
    let extents: Vec<RawExtent> = entries(tables, &header.extents)?;
    let raw: Vec<RawPartition> = entries(tables, &header.partitions)?;
    raw.iter().map(|p| partition(p, &extents, slot)).collect()
}

/// The header and its tables, if their checksums match.
fn header(bytes: &[u8]) -> Result<(Header, &[u8]), Why> {
    const CHECKSUM: Range<usize> = 12..44;
    let (header, _) = Header::read_from_prefix(bytes).map_err(|_| "its tables are too short")?;
    if header.magic.get() != HEADER_MAGIC || header.major.get() != MAJOR {
        return Err("its tables have an unknown version");
    }
    let size = header.header_size.get() as usize;
    if size < size_of::<Header>() || !has_checksum(bytes.get(..size), CHECKSUM, &header.header_checksum) {
        return Err("the checksum of the header of its tables does not match");
    }
    let tables = bytes.get(size..).and_then(|rest| rest.get(..header.tables_size.get() as usize));
    if !has_checksum(tables, 0..0, &header.tables_checksum) {
        return Err("the checksum of its tables does not match");
    }
    Ok((header, tables.unwrap_or_default()))
}

/// The entries of an array; later versions may have longer ones.
fn entries<T: FromBytes>(tables: &[u8], array: &Array) -> Result<Vec<T>, Why> {
    let (offset, size) = (array.offset.get() as usize, array.entry_size.get() as usize);
    if array.count.get() > ENTRIES {
        return Err("an array has more than 4096 entries");
    }
    let len = size.checked_mul(array.count.get() as usize).filter(|_| size >= size_of::<T>());
    let bytes =
        len.and_then(|len| tables.get(offset..)?.get(..len)).ok_or("an array is not inside its tables")?;
    let entry = |bytes: &[u8]| T::read_from_prefix(bytes).ok().map(|(entry, _)| entry);
    Ok(bytes.chunks_exact(size).filter_map(entry).collect())
}

fn partition(raw: &RawPartition, extents: &[RawExtent], slot: u32) -> Result<Partition, Why> {
    let first = raw.first_extent.get() as usize;
    let own = extents.get(first..).and_then(|rest| rest.get(..raw.extents.get() as usize));
    let own = own.ok_or("a partition has extents that its table does not have")?;
    let on_this = own.iter().all(|e| e.kind.get() == LINEAR && e.device.get() == 0);
    let pieces = on_this.then(|| joined(own)).filter(|pieces| pieces.len() <= PIECES);
    let mut name =
        String::from_utf8_lossy(raw.name.split(|&b| b == 0).next().unwrap_or_default()).into_owned();
    if raw.attributes.get() & SUFFIXED != 0 {
        name.push_str(if slot == 0 { "_a" } else { "_b" });
    }
    Ok(Partition { number: None, name, uuid: None, extents: pieces, set: slot })
}

/// The bytes of extents. Adjacent extents are merged.
fn joined(extents: &[RawExtent]) -> Vec<Range<u64>> {
    let mut pieces: Vec<Range<u64>> = Vec::new();
    for extent in extents {
        let start = extent.first_sector.get().saturating_mul(SECTOR);
        let end = start.saturating_add(extent.sectors.get().saturating_mul(SECTOR));
        match pieces.last_mut().filter(|last| last.end == start) {
            Some(last) => last.end = end,
            None => pieces.push(start..end),
        }
    }
    pieces
}
