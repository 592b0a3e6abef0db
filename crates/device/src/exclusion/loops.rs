//! Loop devices, and the bytes that each one reads and writes.
use super::mounts::device_number;
use super::place::{Place, SECTOR};
use crate::ioctl;
use rustix::fs::OFlags;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Offset of a stand-in loop device, which names an image but has no blocks. It is added to the byte of the
/// file at which the image begins.
pub const STAND_IN_OFFSET: u64 = 1 << 62;

const BLOCK: &str = "/sys/block";
/// Follows the name of a backing file that has none any more.
const DELETED: &[u8] = b" (deleted)";

/// A loop device in use.
#[derive(Debug)]
pub(super) struct LoopDevice {
    pub path: PathBuf,
    /// Device numbers of the loop device and its partitions.
    pub numbers: Vec<u64>,
    /// The bytes of the backing file that it reads and writes.
    pub backing: Place,
    /// The name of the backing file, unless it was removed.
    pub backing_path: Option<PathBuf>,
    pub autoclear: bool,
    /// Device mapper or md has it.
    pub stacked: bool,
}

/// All of them that this process can see.
pub(super) fn all() -> Vec<LoopDevice> {
    let entries = fs::read_dir(BLOCK).into_iter().flatten().flatten();
    let names = entries.map(|e| e.file_name()).filter(|n| n.as_bytes().starts_with(b"loop"));
    names.filter_map(|name| LoopDevice::of(&name)).collect()
}

impl LoopDevice {
    fn of(name: &OsStr) -> Option<Self> {
        let sys = Path::new(BLOCK).join(name);
        // Only a device in use has the attributes.
        let mut file = fs::read(sys.join("loop/backing_file")).ok()?;
        file.pop_if(|b| *b == b'\n');
        let gone = file.ends_with(DELETED);
        let named = PathBuf::from(OsString::from_vec(file));
        let path = Path::new("/dev").join(name);
        // The name may be of another namespace, or taken over by another file: the device itself is asked
        // where it can be opened.
        let (whole, offset) = asked(&path).or_else(|| by_name(&named, &sys))?;
        let sectors: u64 = text(&sys.join("size"))?.parse().ok()?;
        let backing = whole.part(offset, sectors.saturating_mul(SECTOR));
        let backing_path = (!gone).then_some(named);
        let mut numbers = Vec::from_iter(number(&sys));
        let parts = fs::read_dir(&sys).into_iter().flatten().flatten();
        let parts: Vec<PathBuf> = parts.map(|e| e.path()).filter(|p| p.join("partition").exists()).collect();
        numbers.extend(parts.iter().filter_map(|p| number(p)));
        let stacked = [&sys].into_iter().chain(&parts).any(|p| has_holders(p));
        let autoclear = text(&sys.join("loop/autoclear")).is_some_and(|t| t == "1");
        Some(Self { path, numbers, backing, backing_path, autoclear, stacked })
    }

    /// Whether it is opened exclusively, for example by a mount, as far as this process can detect.
    pub(super) fn is_opened_exclusively(&self) -> bool {
        let flags = (OFlags::EXCL | OFlags::NONBLOCK).bits().cast_signed();
        let opened = File::options().read(true).custom_flags(flags).open(&self.path);
        opened.is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY))
    }
}

/// The backing file or device, and the offset in it.
fn asked(device: &Path) -> Option<(Place, u64)> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let device = File::options().read(true).custom_flags(flags).open(device).ok()?;
    let status = ioctl::loop_status(&device).ok()?;
    let whole = match status.lo_rdevice {
        0 => Place::of_file(status.lo_device, status.lo_inode),
        number => Place::of_device(number),
    };
    Some((whole, status.lo_offset))
}

fn by_name(file: &Path, sys: &Path) -> Option<(Place, u64)> {
    let offset = text(&sys.join("loop/offset"))?.parse().ok()?;
    Some((Place::of(&file.metadata().ok()?), offset))
}

fn number(sys: &Path) -> Option<u64> {
    device_number(&fs::read(sys.join("dev")).ok()?)
}

fn has_holders(sys: &Path) -> bool {
    fs::read_dir(sys.join("holders")).is_ok_and(|mut holders| holders.next().is_some())
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}
