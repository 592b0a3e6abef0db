//! Opens all devices of a volume, given the path of the first.
use crate::{BlockDevice, Contents, DeviceError, MultiDevice, OpenOptions, open_storage, recorded};
use segno_format::BLOCKS_PER_SEG;
use segno_format::superblock::{SUPERBLOCK_COPIES, Superblock};
use segno_layout::{NoSuperblock, superblock_in_force};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Further devices of a volume of which the caller names the first alone.
#[derive(Clone, Copy)]
enum Unnamed {
    Refused,
    /// Opened by their recorded paths if [`recorded::trusted`] permits it.
    Recorded,
}

/// Opens the volume whose superblock is on the first path.
///
/// Further paths are its other devices, in the order of the superblock's table. Each must have at least the
/// size recorded there. Nothing else is opened: a volume of several devices of which one path is given is
/// refused with [`DeviceError::NotNamed`].
pub fn open_volume(
    paths: &[impl AsRef<Path>],
    options: OpenOptions,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    open_members(paths, options, Unnamed::Refused)
}

/// Like [`open_volume`], for a mount and a check that fstab(5) starts with one path. The further devices are
/// also found by the paths in the superblock, if the first is a block device, all of these paths lead to
/// block devices below /dev, and the caller is root.
pub fn open_volume_recorded(
    paths: &[impl AsRef<Path>],
    options: OpenOptions,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    open_members(paths, options, Unnamed::Recorded)
}

fn open_members(
    paths: &[impl AsRef<Path>],
    options: OpenOptions,
    unnamed: Unnamed,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let (first, others) = paths.split_first().ok_or(DeviceError::NoPath)?;
    let first = first.as_ref();
    let device = open_storage(first, options)?;
    let superblock = read_superblock(first, &*device)?;
    let (share, other_shares) = superblock.device_blocks();
    check_size(first, &*device, share)?;
    let others: Vec<PathBuf> = others.iter().map(|p| p.as_ref().to_path_buf()).collect();
    let others = further(first, &*device, others, recorded::paths(&superblock), unnamed)?;
    if others.is_empty() {
        return Ok(device);
    }
    recorded::refuse_twice(std::iter::once(first).chain(others.iter().map(PathBuf::as_path)))?;
    let mut members: Vec<(Arc<dyn BlockDevice>, u64)> = vec![(device, share)];
    for ((index, path), share) in (1..).zip(&others).zip(other_shares) {
        let member = open_member(path, options, share)
            .map_err(|e| DeviceError::Member { index, source: Box::new(e) })?;
        members.push((member, share));
    }
    join(first, members)
}

/// Paths of all devices but the first.
fn further(
    first: &Path,
    device: &dyn BlockDevice,
    named: Vec<PathBuf>,
    recorded: Vec<PathBuf>,
    unnamed: Unnamed,
) -> Result<Vec<PathBuf>, DeviceError> {
    let path = || first.display().to_string();
    if named.len() == recorded.len() {
        return Ok(named);
    }
    if !named.is_empty() {
        let (expected, given) = (recorded.len().saturating_add(1), named.len().saturating_add(1));
        return Err(DeviceError::MemberCount { path: path(), expected, given });
    }
    let trusted = match unnamed {
        Unnamed::Recorded => recorded::trusted(device, &recorded),
        Unnamed::Refused => None,
    };
    trusted.ok_or_else(|| DeviceError::NotNamed { path: path(), recorded })
}

fn join(
    first: &Path,
    members: Vec<(Arc<dyn BlockDevice>, u64)>,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let joined =
        MultiDevice::of_volume(members).map_err(|e| DeviceError::io("join the devices of", first, e))?;
    Ok(Arc::new(joined))
}

/// Joins the devices of a volume whose superblocks are lost. Each is assumed to contribute all of its whole
/// segments. mkfs does so too, unless zones are larger than a segment and the size of a device is not a
/// multiple of them.
pub fn open_without_superblock(
    paths: &[impl AsRef<Path>],
    options: OpenOptions,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let first = paths.first().ok_or(DeviceError::NoPath)?.as_ref();
    let mut members = Vec::with_capacity(paths.len());
    for path in paths {
        let device = open_storage(path.as_ref(), options)?;
        let share = device.block_count() / u64::from(BLOCKS_PER_SEG) * u64::from(BLOCKS_PER_SEG);
        members.push((device, share));
    }
    match members.as_slice() {
        [(only, _)] => Ok(Arc::clone(only)),
        _ => join(first, members),
    }
}

fn open_member(path: &Path, options: OpenOptions, share: u64) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let device = open_storage(path, options)?;
    check_size(path, &*device, share)?;
    Ok(device)
}

fn check_size(path: &Path, device: &dyn BlockDevice, needed: u64) -> Result<(), DeviceError> {
    let blocks = device.block_count();
    if blocks < needed {
        return Err(DeviceError::TooSmall { path: path.display().to_string(), blocks, needed });
    }
    Ok(())
}

/// Refuses a device without a valid superblock copy, and names its contents.
pub fn require_superblock(path: &Path, device: &dyn BlockDevice) -> Result<(), DeviceError> {
    read_superblock(path, device).map(|_| ())
}

/// The first valid superblock copy.
fn read_superblock(path: &Path, device: &dyn BlockDevice) -> Result<Superblock, DeviceError> {
    check_size(path, device, SUPERBLOCK_COPIES.len() as u64)?;
    let found = superblock_in_force(device).map_err(|e| DeviceError::io("read", path, e.source))?;
    found.map_err(|why| match why {
        NoSuperblock::Unsupported(why) => DeviceError::Unsupported { path: path.display().to_string(), why },
        NoSuperblock::Damaged(copies) => DeviceError::NoSuperblock {
            path: path.display().to_string(),
            contents: Contents::of(device).unwrap_or(Contents::unknown()),
            copies,
        },
    })
}
