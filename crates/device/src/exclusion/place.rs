//! Where bytes are, so that two names of the same bytes are recognised: a range of a file, or of a whole disk.
use super::mounts::device_number;
use crate::location::Location;
use std::fs::{Metadata, canonicalize, read_to_string};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The unit of sizes in sysfs.
pub(super) const SECTOR: u64 = 512;

/// A file or disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    File { dev: u64, ino: u64 },
    Disk(u64),
}

/// Bytes of a file or disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) id: Id,
    pub(super) bytes: Range<u64>,
}

impl Place {
    /// All bytes of a file or block device.
    pub(super) fn of(meta: &Metadata) -> Self {
        if meta.file_type().is_block_device() {
            return Self::of_device(meta.rdev());
        }
        Self::of_file(meta.dev(), meta.ino())
    }

    /// All bytes of a file.
    pub(super) fn of_file(dev: u64, ino: u64) -> Self {
        Self { id: Id::File { dev, ino }, bytes: 0..u64::MAX }
    }

    /// All bytes of a block device. A partition is a part of its disk.
    pub(super) fn of_device(number: u64) -> Self {
        partition(&sys_of(number)).unwrap_or(Self { id: Id::Disk(number), bytes: 0..u64::MAX })
    }

    /// A part of it, given by offset and length.
    pub(super) fn part(&self, offset: u64, len: u64) -> Self {
        let start = self.bytes.start.saturating_add(offset);
        let end = start.saturating_add(len).min(self.bytes.end);
        Self { id: self.id, bytes: start..end }
    }

    /// The bytes of a range of it.
    pub(super) fn range(&self, bytes: &Range<u64>) -> Self {
        self.part(bytes.start, bytes.end.saturating_sub(bytes.start))
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let start = self.bytes.start.max(other.bytes.start);
        self.id == other.id && start < self.bytes.end.min(other.bytes.end)
    }
}

/// Whether two locations lead to bytes of the same file or disk, as a disk and its partition do. False if one leads nowhere.
#[must_use]
pub fn share_storage(one: &Path, other: &Path) -> bool {
    let (one, other) = (places(one), places(other));
    one.iter().any(|one| other.iter().any(|other| one.overlaps(other)))
}

/// The bytes that a location leads to; none if it leads nowhere.
pub(super) fn places(path: &Path) -> Vec<Place> {
    let Ok(extents) = Location::of(path).extents() else { return Vec::new() };
    let whole = extents.file.metadata().ok().map(|meta| Place::of(&meta));
    whole.iter().flat_map(|whole| extents.ranges.iter().map(|bytes| whole.range(bytes))).collect()
}

/// The directory of a block device in sysfs.
pub(crate) fn sys_of(number: u64) -> PathBuf {
    format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number)).into()
}

fn partition(sys: &Path) -> Option<Place> {
    let field = |name| read_to_string(sys.join(name)).ok()?.trim().parse::<u64>().ok();
    field("partition")?;
    let (start, sectors) = (field("start")?, field("size")?);
    let disk = canonicalize(sys).ok()?.parent()?.join("dev");
    let disk = device_number(std::fs::read(disk).ok()?.as_slice())?;
    let start = start.saturating_mul(SECTOR);
    Some(Place { id: Id::Disk(disk), bytes: start..start.saturating_add(sectors.saturating_mul(SECTOR)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_overlap_where_their_bytes_do() {
        let whole = Place { id: Id::File { dev: 1, ino: 2 }, bytes: 0..u64::MAX };
        let (first, second) = (whole.part(0, 4096), whole.part(4096, u64::MAX));
        assert!(whole.overlaps(&first) && whole.overlaps(&second) && !first.overlaps(&second));
        assert_eq!(second.part(8, 16).bytes, 4104..4120);
        assert_eq!(first.part(4000, 4096).bytes, 4000..4096);
        // The loop devices of Segno's mounts have no bytes.
        assert!(!whole.overlaps(&whole.part(1 << 62, 0)));
        let elsewhere = Place { id: Id::Disk(1), ..whole.clone() };
        assert!(!whole.overlaps(&elsewhere));
    }
}
