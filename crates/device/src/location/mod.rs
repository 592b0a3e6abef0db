//! Where a volume is: a file or block device, or a part of one that a table names.
//!
//! A location is written as a path, so that every command, library and binding accepts it: `IMAGE`, `IMAGE#2`
//! and `IMAGE#NAME` for an entry of a partition table or of an Android super image, `IMAGE#@OFFSET` and
//! `IMAGE#@OFFSET+LENGTH` for bytes. If a file with the whole name exists, the name means that file.
mod guid;
mod mbr;
mod source;
mod super_image;
mod table;

pub use table::{Partition, Table};

use crate::DeviceError;
use crate::part_error::PartError;
use crate::storage_kind::kind;
use source::Source;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// All bytes of a file, also those it may get later.
pub(crate) const WHOLE: Range<u64> = 0..u64::MAX;

/// A file or block device, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    file: PathBuf,
    part: Option<PartSelector>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PartSelector {
    /// Number or name of an entry of the table.
    Entry(String),
    /// Bytes. Without a length, up to the end of the partition or volume that begins there.
    Bytes { offset: u64, len: Option<u64> },
}

/// The table of a file or block device; none of them is [`PartError::NoTable`].
pub fn table(path: &Path) -> Result<Result<Table, PartError>, DeviceError> {
    kind(path)?;
    read_table(&*source::open(path)?).map_err(|e| unread(path, e))
}

fn unread(path: &Path, e: io::Error) -> DeviceError {
    DeviceError::io("read the partition table of", path, e)
}

/// The bytes of a location: one range, or several of an entry of a super image.
#[derive(Debug)]
pub(crate) struct Extents {
    pub file: PathBuf,
    pub ranges: Vec<Range<u64>>,
}

impl Location {
    /// The location that a path means.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let exists = |path: &Path| path.symlink_metadata().is_ok();
        let part = || split(path).filter(|(file, _)| exists(file));
        let whole = || Self { file: path.to_owned(), part: None };
        if exists(path) {
            whole()
        } else {
            part().map_or_else(whole, |(file, part)| Self { file, part: Some(part) })
        }
    }

    /// The bytes of a file from an offset on.
    #[must_use]
    pub fn bytes(file: &Path, offset: u64, len: Option<u64>) -> Self {
        Self { file: file.to_owned(), part: Some(PartSelector::Bytes { offset, len }) }
    }

    /// The entry of a file's partition table with this number, name, label or UUID.
    #[must_use]
    pub fn entry(file: &Path, name: &str) -> Self {
        Self { file: file.to_owned(), part: Some(PartSelector::Entry(name.to_owned())) }
    }

    /// The file or block device.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether it is not all of the file.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.part.is_some()
    }

    /// Whether its end is given by its length, the file or a table, and not by the volume.
    pub fn has_end(&self) -> Result<bool, DeviceError> {
        let Some(PartSelector::Bytes { offset, len: None }) = self.part else { return Ok(true) };
        Ok(table(&self.file)?.is_ok_and(|table| table.entry_at(offset).is_some()))
    }

    /// The byte of the file that it is written with; 0 without one.
    #[must_use]
    pub fn offset(&self) -> u64 {
        if let Some(PartSelector::Bytes { offset, .. }) = self.part { offset } else { 0 }
    }

    /// The location that begins at the same byte, without the name of an entry.
    pub fn by_offset(&self) -> Result<Self, DeviceError> {
        let start = self.extents()?.ranges.first().map_or(0, |range| range.start);
        let part = (start > 0).then_some(PartSelector::Bytes { offset: start, len: None });
        Ok(Self { file: self.file.clone(), part })
    }

    /// The location as a path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let Some(part) = &self.part else { return self.file.clone() };
        let mut text = self.file.as_os_str().to_owned();
        text.push(format!("#{part}"));
        text.into()
    }

    /// The same with an absolute path without symbolic links.
    pub fn canonical(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.canonicalize()?, part: self.part.clone() })
    }

    /// Finds its bytes.
    pub(crate) fn extents(&self) -> Result<Extents, DeviceError> {
        let file = self.file.clone();
        let Some(part) = &self.part else { return Ok(Extents { file, ranges: vec![WHOLE] }) };
        // Opening anything else, such as a FIFO, could block.
        kind(&file)?;
        let source = source::open(&file)?;
        let found = part.find(&*source).map_err(|e| unread(&self.file, e))?;
        let ranges = found.and_then(|ranges| check(ranges, source.len()));
        let ranges = ranges.map_err(|why| DeviceError::part(&self.file, why))?;
        Ok(Extents { file, ranges })
    }
}

impl PartSelector {
    fn find(&self, source: &dyn Source) -> io::Result<Result<Vec<Range<u64>>, PartError>> {
        match self {
            Self::Entry(name) => Ok(read_table(source)?.and_then(|table| table.find(name, source))),
            Self::Bytes { offset, len: Some(len) } => Ok(Ok(one(*offset, *len))),
            Self::Bytes { offset, len: None } => from(*offset, source),
        }
    }
}

/// The table of a file or device.
fn read_table(source: &dyn Source) -> io::Result<Result<Table, PartError>> {
    for read in [guid::read, super_image::read, mbr::read] {
        if let Some(found) = read(source)? {
            return Ok(found);
        }
    }
    Ok(Err(PartError::NoTable))
}

/// The ranges from an offset on: an entry of the table, else the volume with its superblock there.
fn from(offset: u64, source: &dyn Source) -> io::Result<Result<Vec<Range<u64>>, PartError>> {
    if let Ok(table) = read_table(source)?
        && let Some(entry) = table.entry_at(offset)
    {
        return Ok(table.sound(entry));
    }
    let len = source::volume_bytes(source, offset..source.len())?;
    Ok(len.map(|len| one(offset, len)).ok_or(PartError::NoEnd { offset }))
}

fn one(offset: u64, len: u64) -> Vec<Range<u64>> {
    std::iter::once(offset..offset.saturating_add(len)).collect()
}

/// Refuses what is empty or not in the file, and pieces that cannot be joined.
fn check(ranges: Vec<Range<u64>>, len: u64) -> Result<Vec<Range<u64>>, PartError> {
    let whole =
        |range: &Range<u64>| (range.end - range.start).is_multiple_of(segno_format::BLOCK_SIZE as u64);
    if ranges.is_empty() || ranges.iter().any(|range| range.start >= range.end) {
        return Err(PartError::Empty);
    }
    if let Some(range) = ranges.iter().find(|range| range.end > len) {
        return Err(PartError::Beyond { start: range.start, end: range.end, len });
    }
    if ranges.len() > 1 && !ranges.iter().all(whole) {
        return Err(PartError::Pieces);
    }
    Ok(ranges)
}

impl Extents {
    /// Those of an entry of the table of a file.
    pub(crate) fn of_partition(
        file: &Path,
        table: &Table,
        partition: &Partition,
    ) -> Result<Self, DeviceError> {
        let ranges = table.sound(partition).and_then(|ranges| check(ranges, table.bytes));
        Ok(Self { file: file.to_owned(), ranges: ranges.map_err(|why| DeviceError::part(file, why))? })
    }

    /// The only range, where several cannot be used.
    pub(crate) fn single(self) -> Result<(PathBuf, Range<u64>), DeviceError> {
        match self.ranges.as_slice() {
            [one] => Ok((self.file, one.clone())),
            _ => Err(DeviceError::part(&self.file, PartError::Several)),
        }
    }
}

/// The file and the part that a path with `#` names.
fn split(path: &Path) -> Option<(PathBuf, PartSelector)> {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.iter().rposition(|&b| b == b'#')?;
    let (file, name) = bytes.split_at_checked(at)?;
    let name = OsStr::from_bytes(name.get(1..)?).to_str()?;
    let is_name = !name.is_empty() && !name.contains('/') && !file.is_empty() && !file.ends_with(b"/");
    let part = || byte_range(name).unwrap_or_else(|| PartSelector::Entry(name.to_owned()));
    is_name.then(|| (PathBuf::from(std::ffi::OsString::from_vec(file.to_vec())), part()))
}

/// `@OFFSET` or `@OFFSET+LENGTH`
fn byte_range(name: &str) -> Option<PartSelector> {
    let digits = name.strip_prefix('@')?;
    let (offset, len) = match digits.split_once('+') {
        Some((offset, len)) => (offset, Some(len.parse().ok()?)),
        None => (digits, None),
    };
    Some(PartSelector::Bytes { offset: offset.parse().ok()?, len })
}

impl fmt::Display for PartSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(name) => f.write_str(name),
            Self::Bytes { offset, len: None } => write!(f, "@{offset}"),
            Self::Bytes { offset, len: Some(len) } => write!(f, "@{offset}+{len}"),
        }
    }
}

#[cfg(test)]
mod tests;
