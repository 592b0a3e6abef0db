//! Media that travel between machines.
use crate::exclusion::sys_of;
use crate::location::Location;
use std::fs::{canonicalize, read_to_string};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Whether a location is on a block device that may be taken away: a card, or what sysfs calls removable.
#[must_use]
pub fn is_removable(path: &Path) -> bool {
    let found = Location::of(path).file().metadata();
    found.is_ok_and(|meta| meta.file_type().is_block_device() && is_removable_disk(&sys_of(meta.rdev())))
}

/// The same of a directory in sysfs, of a disk or a partition.
fn is_removable_disk(sys: &Path) -> bool {
    let Ok(sys) = canonicalize(sys) else { return false };
    let disk = if sys.join("partition").exists() { sys.parent() } else { Some(&*sys) };
    let says = |name: &str| disk.and_then(|disk| read_to_string(disk.join(name)).ok()).unwrap_or_default();
    says("removable").trim() == "1" || ["SD", "MMC"].contains(&says("device/type").trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    #[test]
    fn cards_and_what_sysfs_calls_removable_travel() {
        let dir = tempfile::tempdir().unwrap();
        let disk = |name: &str, removable: &str, kind: &str| {
            let (disk, part) = (dir.path().join(name), dir.path().join(name).join("part1"));
            create_dir_all(disk.join("device")).unwrap();
            create_dir_all(&part).unwrap();
            write(disk.join("removable"), removable).unwrap();
            write(disk.join("device/type"), kind).unwrap();
            write(part.join("partition"), "1\n").unwrap();
            [is_removable_disk(&disk), is_removable_disk(&part)]
        };
        assert_eq!(disk("stick", "1\n", "0\n"), [true; 2]);
        assert_eq!(disk("card", "0\n", "SD\n"), [true; 2]);
        assert_eq!(disk("emmc", "0\n", "MMC\n"), [true; 2]);
        assert_eq!(disk("ssd", "0\n", "0\n"), [false; 2]);
        assert!(!is_removable_disk(&dir.path().join("nothing")) && !is_removable(dir.path()));
    }
}
