//! Exclusion of other users of the same storage. [`Use`] is the table; everything that opens storage passes
//! through here.
//!
//! Others are seen by advisory locks of the bytes in use, by `O_EXCL` on block devices, and by the
//! loop devices and mounts that the kernel reports by number. Names in the mount table prove nothing: any
//! user chooses the source of a FUSE mount.
mod lock;
mod loops;
mod mounts;
mod place;
mod table;

pub(crate) use lock::LockedFile;
pub use mounts::Mount;
pub use table::{Other, Use};

use crate::exclusive_open::ExclusiveOpen;
use crate::in_use_by::InUseBy;
use crate::location::Location;
use crate::storage_kind::{StorageKind, kind};
use crate::{DeviceError, OpenOptions};
use lock::{lock, lock_owners};
use loops::LoopDevice;
pub use loops::STAND_IN_OFFSET;
pub use place::share_storage;
pub(crate) use place::sys_of;
use place::{Id, Place, places};
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Loop devices on loop devices are followed so far.
const DEPTH: usize = 4;

/// The mounts and loop devices of a moment.
struct View {
    mounts: Vec<Mount>,
    loops: Vec<LoopDevice>,
}

/// Opens a block device exclusively; `None` if a mount that the use tolerates has it.
pub(crate) fn open_exclusively(path: &Path, usage: Use) -> Result<Option<ExclusiveOpen>, DeviceError> {
    let refused = match ExclusiveOpen::take(path) {
        Ok(exclusive) => return Ok(Some(exclusive)),
        Err(e @ DeviceError::InUse { .. }) => e,
        Err(e) => return Err(e),
    };
    let meta = path.metadata().map_err(|e| DeviceError::io("open", path, e))?;
    let view = View::now(path)?;
    let mut mounts = view.mounts.iter().filter(|m| m.device == meta.rdev()).peekable();
    let only_read = mounts.peek().is_some() && mounts.all(|m| m.all_read_only);
    if only_read && usage.tolerates(Other::ReadOnlyMount) {
        return Ok(None);
    }
    Err(match view.mount_of(&meta, path, &[]) {
        Some(by) => in_use(path, by),
        None => refused,
    })
}

/// Keeps users out of bytes of an open file or device that the use does not tolerate, until the file is
/// unlocked. The result is the locked backing file of a loop device.
pub(crate) fn exclude(
    path: &Path,
    file: &File,
    bytes: &Range<u64>,
    usage: Use,
) -> Result<Option<LockedFile>, DeviceError> {
    if usage.tolerates(Other::Writer) {
        return Ok(None);
    }
    if !locked(path, file, usage, bytes)? {
        return Err(in_use(path, lock_owner(path, file)?));
    }
    let meta = file.metadata().map_err(|e| DeviceError::io("stat", path, e))?;
    let (view, place) = (View::now(path)?, Place::of(&meta).range(bytes));
    view.check(path, &place, None, usage, DEPTH)?;
    let Some((own, behind)) = view.behind(&place) else { return Ok(None) };
    view.check(path, &behind, Some(own), usage, DEPTH)?;
    let Some((name, file)) = own.open_backing(usage) else { return Ok(None) };
    if !locked(path, &file, usage, &behind.bytes)? {
        return Err(in_use(path, lock_owner(name, &file)?));
    }
    Ok(Some(file))
}

/// A file or device that is kept from others, and neither read nor written through this.
#[derive(Debug)]
pub struct Hold {
    _exclusive: Option<ExclusiveOpen>,
    /// One for each of its ranges.
    _files: Vec<(LockedFile, Option<LockedFile>)>,
}

/// Keeps others out of a file until the result is dropped: with [`Use::Write`] one that is about to be replaced.
pub fn hold(path: impl AsRef<Path>, usage: Use) -> Result<Hold, DeviceError> {
    let path = path.as_ref();
    let extents = Location::of(path).extents()?;
    // Opening anything else, such as a FIFO, could block.
    let exclusive = match kind(&extents.file)? {
        StorageKind::BlockDevice => open_exclusively(&extents.file, usage)?,
        StorageKind::Regular => None,
    };
    let files = extents.ranges.iter().map(|bytes| hold_bytes(path, &extents.file, bytes, usage));
    Ok(Hold { _exclusive: exclusive, _files: files.collect::<Result<_, _>>()? })
}

fn hold_bytes(
    path: &Path,
    file: &Path,
    bytes: &Range<u64>,
    usage: Use,
) -> Result<(LockedFile, Option<LockedFile>), DeviceError> {
    let for_writing = File::options().read(true).write(usage != Use::Read).open(file);
    // To replace a file takes no permission to write to it.
    let file = for_writing.or_else(|_| File::open(file)).map_err(|e| DeviceError::io("open", path, e))?;
    let file = LockedFile(file);
    let backing = exclude(path, &file, bytes, usage)?;
    Ok((file, backing))
}

fn locked(path: &Path, file: &File, usage: Use, bytes: &Range<u64>) -> Result<bool, DeviceError> {
    lock(file, usage.tolerates(Other::Reader), bytes).map_err(|e| DeviceError::io("lock", path, e))
}

fn in_use(path: &Path, by: InUseBy) -> DeviceError {
    DeviceError::InUse { path: path.display().to_string(), by }
}

/// The owner of the lock of a file.
fn lock_owner(path: &Path, file: &File) -> Result<InUseBy, DeviceError> {
    let processes = lock_owners(file);
    if processes.contains(&std::process::id()) {
        return Ok(InUseBy::ThisProcess);
    }
    let meta = file.metadata().map_err(|e| DeviceError::io("stat", path, e))?;
    if let Some(mount) = View::now(path)?.mount_of(&meta, path, &processes) {
        return Ok(mount);
    }
    Ok(processes.first().map_or(InUseBy::Unknown, |&pid| InUseBy::Process { pid, name: program_name(pid) }))
}

/// Name of the program that a process runs.
#[must_use]
pub fn program_name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| "another program".to_owned(), |name| name.trim().to_owned())
}

fn user(pid: u32) -> Option<u32> {
    Some(std::fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

impl View {
    fn now(path: &Path) -> Result<Self, DeviceError> {
        let mounts = Mount::all().map_err(|e| DeviceError::io("read the mount table for", path, e))?;
        Ok(Self { mounts, loops: loops::all() })
    }

    /// Refuses a use that does not tolerate the loop devices over these bytes.
    fn check(
        &self,
        path: &Path,
        place: &Place,
        own: Option<&LoopDevice>,
        usage: Use,
        depth: usize,
    ) -> Result<(), DeviceError> {
        let is_own = |l: &LoopDevice| own.is_some_and(|own| own.path == l.path);
        for device in self.loops.iter().filter(|l| l.backing.overlaps(place) && !is_own(l)) {
            let mounts: Vec<&Mount> =
                self.mounts.iter().filter(|m| device.numbers.contains(&m.device)).collect();
            // A failed exclusive open shows mounts in other namespaces. It is tried only where it decides.
            let opened = || usage.tolerates(Other::LoopDevice) && device.is_opened_exclusively();
            let other = match mounts.as_slice() {
                [] if device.stacked || opened() => Other::ExclusiveOpen,
                [] => Other::LoopDevice,
                all if all.iter().all(|m| m.all_read_only) => Other::ReadOnlyLoopMount,
                _ => Other::Mount,
            };
            if !usage.tolerates(other) {
                let dir = mounts.last().map(|m| m.dir.clone());
                let (device, autoclear) = (device.path.clone(), device.autoclear);
                return Err(in_use(path, InUseBy::LoopDevice { device, dir, autoclear }));
            }
            if let (Some(&number), Some(depth)) = (device.numbers.first(), depth.checked_sub(1)) {
                self.check(path, &Place::of_device(number), own, usage, depth)?;
            }
        }
        Ok(())
    }

    /// The loop device that has these bytes, and their place in its backing file.
    fn behind(&self, place: &Place) -> Option<(&LoopDevice, Place)> {
        let Id::Disk(number) = place.id else { return None };
        let own = self.loops.iter().find(|l| l.numbers.first() == Some(&number))?;
        let len = place.bytes.end.saturating_sub(place.bytes.start);
        Some((own, own.backing.part(place.bytes.start, len)))
    }

    /// A mount of a file or device that others hold. One that only its source names has to be of root, or of
    /// the user whose process has the lock: other users may give theirs any name.
    fn mount_of(&self, meta: &Metadata, path: &Path, processes: &[u32]) -> Option<InUseBy> {
        let mut places = places(path);
        if places.is_empty() {
            places.push(Place::of(meta));
        }
        let stands_for = |number: u64| {
            let of_device = Place::of_device(number);
            let loops = self.loops.iter().filter(|l| l.numbers.contains(&number));
            let behind: Vec<Place> =
                loops.flat_map(|l| [Some(l.backing.clone()), l.stands_for()]).flatten().collect();
            let is_one =
                |place: &Place| of_device.overlaps(place) || behind.iter().any(|b| b.overlaps(place));
            places.iter().any(is_one)
        };
        let path = Location::of(path).canonical().ok().map(|at| at.path());
        let users: Vec<u32> = processes.iter().filter_map(|&pid| user(pid)).collect();
        let is_of = |m: &&Mount| {
            let trusted = m.user.is_some_and(|user| user == 0 || users.contains(&user));
            stands_for(m.device) || (m.is_ours() && trusted && Some(&m.source) == path.as_ref())
        };
        let mount = self.mounts.iter().rev().find(is_of)?;
        let (dir, ours, read_only) = (mount.dir.clone(), mount.is_ours(), mount.all_read_only);
        Some(InUseBy::Mount { dir, ours, read_only })
    }
}

impl LoopDevice {
    /// The first byte of its image in the backing file, if this is a stand-in without blocks.
    fn stands_for(&self) -> Option<Place> {
        let start = self.backing.bytes.start.checked_sub(STAND_IN_OFFSET)?;
        Some(Place { id: self.backing.id, bytes: start..start.saturating_add(1) })
    }

    /// The backing file, if it still has its name.
    fn open_backing(&self, usage: Use) -> Option<(&Path, LockedFile)> {
        let path = self.backing_path.as_ref()?;
        let for_writing = File::options().read(true).write(usage != Use::Read).open(path);
        let file = for_writing.or_else(|_| File::open(path)).ok()?;
        let is_it = Place::of(&file.metadata().ok()?).id == self.backing.id;
        is_it.then_some((path.as_path(), LockedFile(file)))
    }
}

impl From<OpenOptions> for Use {
    fn from(options: OpenOptions) -> Self {
        if options.read_only { Self::Read } else { Self::Write }
    }
}
