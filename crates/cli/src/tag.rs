//! Volumes named by a tag of the volume or its partition, as in fstab(5): `LABEL=…`, `UUID=…`, `PARTUUID=…`, `PARTLABEL=…`.
use anyhow::{Context, Result, bail};
use segno::inspect;
use segno_device::observe_storage;
use segno_format::superblock::uuid_text;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Block devices that the kernel has.
const BLOCK: &str = "/sys/class/block";

/// The kind of a tag, by which a volume is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Label,
    Uuid,
    PartLabel,
    PartUuid,
}

const TAGS: [(&str, Tag, &str); 4] = [
    ("LABEL=", Tag::Label, "by-label"),
    ("UUID=", Tag::Uuid, "by-uuid"),
    ("PARTLABEL=", Tag::PartLabel, "by-partlabel"),
    ("PARTUUID=", Tag::PartUuid, "by-partuuid"),
];

/// The device that a tag names; any other path as it is, and so is a file that has the name.
pub fn resolve(path: &Path) -> Result<PathBuf> {
    let text = path.as_os_str().as_bytes();
    let found = TAGS.iter().find_map(|row| Some((row, text.strip_prefix(row.0.as_bytes())?)));
    let Some((&(name, tag, links), value)) = found.filter(|_| path.symlink_metadata().is_err()) else {
        return Ok(path.to_owned());
    };
    let value =
        OsStr::from_bytes(value).to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    let mut devices: BTreeSet<PathBuf> = link(links, value).into_iter().collect();
    devices.extend(devices_with(tag, value)?);
    let mut devices = devices.into_iter();
    match (devices.next(), devices.next()) {
        (Some(only), None) => Ok(only),
        (Some(one), Some(other)) => {
            bail!("{} and {} both have {name}{value}: name the device", one.display(), other.display())
        }
        _ => bail!(
            "no block device has {name}{value}; `lsblk -o NAME,LABEL,UUID,PARTLABEL,PARTUUID` lists those that there are"
        ),
    }
}

/// The device that udev has linked by this tag.
fn link(links: &str, value: &str) -> Option<PathBuf> {
    Path::new("/dev/disk").join(links).join(encoded(value)).canonicalize().ok()
}

/// A value as udev writes it in names of links.
fn encoded(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "#+-.:=@_".contains(c);
    let one = |c: char| if plain(c) { c.to_string() } else { format!("\\x{:02x}", c as u32) };
    value.chars().map(one).collect()
}

/// Devices that this user may read, and partitions as the kernel names them.
fn devices_with(tag: Tag, value: &str) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(BLOCK) {
        Ok(entries) => entries,
        // Without sysfs, links alone are found.
        Err(_) => return Ok(Vec::new()),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {BLOCK}"))?;
        let uevent = std::fs::read_to_string(entry.path().join("uevent")).unwrap_or_default();
        let field = |key: &str| uevent.lines().find_map(|line| line.strip_prefix(key));
        let Some(device) = field("DEVNAME=").map(|name| Path::new("/dev").join(name)) else { continue };
        let is_it = match tag {
            Tag::PartLabel => field("PARTNAME=") == Some(value),
            Tag::PartUuid => field("PARTUUID=").is_some_and(|uuid| uuid.eq_ignore_ascii_case(value)),
            Tag::Label | Tag::Uuid => names_volume(&device, tag, value),
        };
        if is_it {
            found.push(device.canonicalize().unwrap_or(device));
        }
    }
    Ok(found)
}

/// Whether a device has a volume with the tag. A device that cannot be read has none.
fn names_volume(device: &Path, tag: Tag, value: &str) -> bool {
    let Ok(storage) = observe_storage(device) else { return false };
    let Ok(superblock) = inspect::superblock(&*storage) else { return false };
    match tag {
        Tag::Label => superblock.label() == value,
        _ => uuid_text(&superblock.raw.uuid).eq_ignore_ascii_case(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_paths_stay_as_they_are() {
        for path in ["disk.img", "/dev/sda1", "s3://bucket/UUID=x", "label=x", ""] {
            assert_eq!(resolve(Path::new(path)).unwrap(), Path::new(path));
        }
        let said = resolve(Path::new("UUID=00000000-0000-0000-0000-00000000dead")).unwrap_err().to_string();
        assert!(said.starts_with("no block device has UUID=00000000-"), "{said}");
    }

    #[test]
    fn names_of_links_are_those_of_udev() {
        assert_eq!(encoded("my card/2"), "my\\x20card\\x2f2");
        assert_eq!(encoded("Grün-1.0"), "Grün-1.0");
    }
}
