//! The volumes in a file or device: in its partitions, after a compressed root, or anywhere.
use crate::error::{Doing, Result};
use crate::inspect;
use segno_device::{
    BlockDevice, Contents, DeviceError, Location, PartError, Partition, Table, TableKind, observe_partition,
    observe_storage, table,
};
use segno_format::superblock::{Superblock, uuid_text};
use segno_format::{BLOCK_SIZE, Block, F2FS_MAGIC};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

const SECTOR: u64 = 512;
/// Where the superblock begins in a volume.
const SUPERBLOCK: u64 = 1024;
/// Blocks of one read of a search.
const PIECE: u64 = 256;
/// OpenWrt puts the writable volume after a squashfs, at a multiple of this.
const OVERLAY_ALIGN: u64 = 65_536;

/// The contents of a file or device.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found {
    /// Its partition table, if it has one.
    pub table: Option<TableKind>,
    /// The error in the table, if it is damaged.
    pub problem: Option<PartError>,
    /// Its partitions, in the order of the table, and volumes that no table names.
    pub parts: Vec<Part>,
}

/// A part of a file or device.
#[derive(Debug)]
#[non_exhaustive]
pub struct Part {
    /// The path that all functions take for it.
    pub location: PathBuf,
    /// The entry of the table, unless no table names it.
    pub partition: Option<Partition>,
    /// Byte that it begins at; of several pieces, the first.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Its contents.
    pub holds: Holds,
}

/// The contents of a part.
#[derive(Debug)]
#[non_exhaustive]
pub enum Holds {
    /// A volume.
    Volume {
        /// Its label.
        label: String,
        /// Its UUID, with dashes.
        uuid: String,
        /// Its length in bytes.
        bytes: u64,
        /// Whether it can be used.
        state: State,
    },
    /// Something else, as a predicate: "holds an ext4 file system".
    Other(Contents),
    /// It cannot be read.
    Unreadable(String),
}

/// The state of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Unmounted, or mounted without changes since its last checkpoint.
    Clean,
    /// In use, or not unmounted: a mount recovers it.
    NotUnmounted,
    /// With a feature that is not supported, or damaged.
    Unusable(String),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean => f.write_str("clean"),
            Self::NotUnmounted => f.write_str("not unmounted"),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}

/// Finds the volumes of a file or device, without a lock and without writing. Where no partition table names one, all of the file is
/// searched, and `progress` is called with the bytes that were.
pub fn find(path: impl AsRef<Path>, progress: &mut dyn FnMut(u64)) -> Result<Found> {
    let path = path.as_ref();
    let (named, problem) = match table(path).doing_at("open", path)? {
        Ok(table) => (Some(table), None),
        Err(PartError::NoTable) => (None, None),
        Err(why) => (None, Some(why)),
    };
    let mut parts: Vec<Part> = match &named {
        Some(table) => table.partitions.iter().map(|p| partition(path, table, p)).collect(),
        None => vec![whole(path).doing_at("read", path)?],
    };
    let behind: Vec<Part> = parts.iter().filter_map(|part| overlay(path, part)).collect();
    parts.extend(behind);
    if named.is_none() && !parts.iter().any(Part::is_volume) {
        parts.extend(search(path, progress).doing_at("read", path)?);
    }
    Ok(Found { table: named.map(|table| table.kind), problem, parts })
}

impl Part {
    /// Whether a volume is in it.
    #[must_use]
    pub fn is_volume(&self) -> bool {
        matches!(self.holds, Holds::Volume { .. })
    }
}

fn whole(path: &Path) -> std::result::Result<Part, DeviceError> {
    let device = observe_storage(path)?;
    let bytes = device.block_count().saturating_mul(BLOCK_SIZE as u64);
    Ok(Part { location: path.to_owned(), partition: None, offset: 0, bytes, holds: holds(&*device) })
}

fn partition(path: &Path, table: &Table, partition: &Partition) -> Part {
    let name = partition.number.map_or_else(|| partition.name.clone(), |n| n.to_string());
    let location = Location::entry(path, &name).path();
    let extents = partition.extents.as_deref().unwrap_or_default();
    let bytes = extents.iter().map(|e| e.end.saturating_sub(e.start)).fold(0, u64::saturating_add);
    let offset = extents.first().map_or(0, |e| e.start);
    let holds = match extents {
        // The other slot of a super image.
        [] if table.kind == TableKind::Super && partition.extents.is_some() => {
            Holds::Other(Contents::nothing())
        }
        _ => observe_partition(path, table, partition)
            .map_or_else(|e| Holds::Unreadable(e.to_string()), |device| self::holds(&*device)),
    };
    Part { location, partition: Some(partition.clone()), offset, bytes, holds }
}

fn holds(device: &dyn BlockDevice) -> Holds {
    match inspect::superblock(device) {
        Ok(sb) => volume(device, &sb),
        Err(_) => Contents::of(device).map_or_else(|e| Holds::Unreadable(e.to_string()), Holds::Other),
    }
}

fn volume(device: &dyn BlockDevice, sb: &Superblock) -> Holds {
    let state = match (sb.check_support(), inspect::is_clean(device)) {
        (Err(why), _) => State::Unusable(why.to_string()),
        (_, Err(why)) => State::Unusable(why.to_string()),
        (_, Ok(true)) => State::Clean,
        (_, Ok(false)) => State::NotUnmounted,
    };
    let bytes = sb.raw.block_count.get().saturating_mul(BLOCK_SIZE as u64);
    Holds::Volume { label: sb.label(), uuid: uuid_text(&sb.raw.uuid), bytes, state }
}

/// The volume after a squashfs in the same part.
fn overlay(path: &Path, part: &Part) -> Option<Part> {
    const MAGIC: &[u8] = b"hsqs";
    const BYTES_USED: Range<usize> = 40..48;
    let device = observe_storage(&part.location).ok()?;
    let mut first = [Block::zeroed()];
    device.read(0, &mut first).ok()?;
    let [Block(block)] = &first;
    let used = block.get(BYTES_USED)?.try_into().map(u64::from_le_bytes).ok()?;
    let behind = used.checked_next_multiple_of(OVERLAY_ALIGN)?;
    let is_in = block.starts_with(MAGIC) && behind < part.bytes;
    is_in.then(|| at(path, part.offset.saturating_add(behind))).flatten()
}

/// The volume that begins at a byte, if one that can be read does.
fn at(path: &Path, offset: u64) -> Option<Part> {
    let location = Location::bytes(path, offset, None).path();
    let device = observe_storage(&location).ok()?;
    let sb = inspect::superblock(&*device).ok()?;
    inspect::checkpoint(&*device, &sb).ok()?;
    let bytes = device.block_count().saturating_mul(BLOCK_SIZE as u64);
    Some(Part { location, partition: None, offset, bytes, holds: volume(&*device, &sb) })
}

/// Volumes that begin at any sector.
fn search(path: &Path, progress: &mut dyn FnMut(u64)) -> std::result::Result<Vec<Part>, DeviceError> {
    let device = observe_storage(path)?;
    let (mut found, mut next) = (Vec::<Part>::new(), 0);
    while let Some(piece) = next_piece(&*device, next) {
        next = piece.end;
        progress(piece.start.saturating_mul(BLOCK_SIZE as u64));
        let mut blocks = vec![Block::zeroed(); (piece.end - piece.start) as usize];
        if device.read(piece.start, &mut blocks).is_err() {
            // The search continues after a piece that cannot be read.
            continue;
        }
        for offset in superblocks(&blocks, piece.start.saturating_mul(BLOCK_SIZE as u64)) {
            // The second copy of a superblock, and volumes in images that are files of a volume.
            let is_inside = found.last().is_some_and(|last| offset < last.offset.saturating_add(last.bytes));
            found.extend(at(path, offset).filter(|_| !is_inside));
        }
    }
    Ok(found)
}

/// Blocks from here on that may hold anything but zeros.
fn next_piece(device: &dyn BlockDevice, from: u64) -> Option<Range<u64>> {
    let (start, count) = (device.next_data(from), device.block_count());
    (start < count).then(|| start..start.saturating_add(PIECE).min(count))
}

/// Bytes at which a volume may begin: the magic number is where its superblock would be.
fn superblocks(blocks: &[Block], start: u64) -> impl Iterator<Item = u64> {
    let sectors = blocks.iter().flat_map(|block| block.0.chunks_exact(SECTOR as usize));
    let marked = (0u64..).zip(sectors).filter(|(_, sector)| sector.starts_with(&F2FS_MAGIC.to_le_bytes()));
    marked.filter_map(move |(n, _)| start.saturating_add(n.saturating_mul(SECTOR)).checked_sub(SUPERBLOCK))
}
