//! Opening images, with errors that name the remedy.
use crate::command_line;
use crate::store;
use anyhow::{anyhow, ensure};
use rustix::fs::getxattr;
use rustix::io::Errno;
use segno::{Checker, PendingReplay, inspect};
use segno_device::{BlockDevice, DeviceError, InUseBy, Location, OpenOptions, open_storage, open_volume};
use segno_engine::Observer;
use segno_format::BLOCK_SIZE;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

pub const READ_ONLY: OpenOptions = OpenOptions { read_only: true, direct: false };

/// Opens the volume on these devices, the one with the superblock first.
pub fn open(paths: &[PathBuf], options: OpenOptions) -> anyhow::Result<Arc<dyn BlockDevice>> {
    open_with(paths, options, &store::Settings::default(), open_volume)
}

/// Opens the volume at a URL with these settings, or on devices of this machine by `open`.
pub fn open_with(
    paths: &[PathBuf],
    options: OpenOptions,
    settings: &store::Settings,
    open: Open,
) -> anyhow::Result<Arc<dyn BlockDevice>> {
    if let Some(device) = store::open(paths, options, settings)? {
        return Ok(device);
    }
    ensure!(settings.cache.is_none(), "store_cache is for volumes on an object store");
    patiently(|| open(paths, options)).map_err(explain)
}

type Opened = Result<Arc<dyn BlockDevice>, DeviceError>;

/// Whether further devices are found only as they are named, or also as the superblock of a block device records them.
pub type Open = fn(&[PathBuf], OpenOptions) -> Opened;

/// Opens the volume on these devices, or only the first one if it is too damaged to name the others.
pub fn open_damaged(paths: &[PathBuf], options: OpenOptions, open: Open) -> Opened {
    match (patiently(|| open(paths, options)), paths) {
        (Err(e @ (DeviceError::NoSuperblock { .. } | DeviceError::TooSmall { .. })), [only])
            if !e.is_foreign() =>
        {
            note_incomplete(e);
            open_storage(only, options)
        }
        (opened, _) => opened,
    }
}

/// Tries again for a while when the image is in use by a program: umount(8) returns before the server has closed it.
pub fn patiently<T>(open: impl Fn() -> Result<T, DeviceError>) -> Result<T, DeviceError> {
    let start = Instant::now();
    loop {
        match open() {
            Err(e) if start.elapsed() < PATIENCE && e.in_use_by().is_some_and(InUseBy::may_end) => {
                std::thread::sleep(POLL);
            }
            other => return other,
        }
    }
}

/// Prints notices of the engine.
pub fn observer() -> Observer {
    Observer::new(|notice| eprintln!("segno: {notice}"))
}

/// Context of an error while a volume is being mounted.
pub fn cannot_read(path: &Path) -> String {
    format!("cannot use the volume on {0} (`segno check {0}` reports details)", path.display())
}

/// Of a path where a mount is needed.
pub fn not_mounted(path: &Path) -> anyhow::Error {
    let name = path.display();
    let advice = if path.is_file() {
        format!(": `segno mount {name} DIR` mounts an image, `segno info {name}` describes it")
    } else {
        String::new()
    };
    anyhow!("{name} is not on a mount of segno{advice}")
}

/// The value of an attribute of a mount at a path.
pub fn answer(path: &Path, attribute: &str) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 65_536];
    let n = getxattr(path, attribute, &mut buffer)?;
    buffer.truncate(n);
    Ok(buffer)
}

/// Why a mount did not return an attribute at a path; `failed` names the request for other errors.
pub fn unanswered(e: Errno, path: &Path, failed: impl FnOnce() -> String) -> anyhow::Error {
    match e {
        Errno::OPNOTSUPP | Errno::NODATA => not_mounted(path),
        e if is_dead(e) => anyhow!("the server of {0} has died: `segno umount {0}`", path.display()),
        e => anyhow!(e).context(failed()),
    }
}

/// Whether a request failed as the server has died. The first one after that may fail because the connection was aborted or its ring
/// taken down.
pub fn is_dead(e: Errno) -> bool {
    [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED].contains(&e)
}

/// Adds the remedy, in words of the command line.
pub fn explain(e: DeviceError) -> anyhow::Error {
    match &e {
        DeviceError::ReadOnly { path, source } => {
            anyhow!("{path} cannot be written ({source}): mount it with -o ro, or change its permissions")
        }
        DeviceError::TooSmall { path, blocks, needed } => truncated(path, *blocks, *needed),
        DeviceError::NotStorage { path } if Path::new(path).is_dir() => {
            anyhow!("{path} is a directory: name the image. stats, map, report and extents read a mount")
        }
        DeviceError::NoDirect { .. } => anyhow!("{e}: leave out -o direct"),
        DeviceError::NotNamed { path, recorded } => not_named(path, recorded),
        _ => e.into(),
    }
}

/// Only one device of a volume of several was named. The user decides whether the recorded paths are the others.
fn not_named(path: &str, recorded: &[PathBuf]) -> anyhow::Error {
    anyhow!(
        "the volume on {path} has {} devices, and a path that an image records is not opened unless it is named; if these are its \
         devices: `{}`",
        recorded.len().saturating_add(1),
        command_line::with_devices(recorded)
    )
}

/// Why an image was not built or extracted.
pub fn explain_image(e: segno_image::Error) -> anyhow::Error {
    match e {
        segno_image::Error::Device(e) => explain(e),
        other => other.into(),
    }
}

/// The mode to create a file with that has content of these images.
pub fn copy_mode<P: AsRef<Path>>(images: impl IntoIterator<Item = P>) -> u32 {
    segno_host::copy_mode(images.into_iter().map(|image| Location::of(image.as_ref()).file().to_owned()))
}

/// Prints a note, for commands that go on with the devices that are there.
pub fn note_incomplete(e: DeviceError) {
    if let DeviceError::TooSmall { .. } | DeviceError::NotNamed { .. } = e {
        eprintln!("segno: note: {}", explain(e));
    }
}

/// For commands that show what there is, of volumes that nothing mounts too.
pub fn note_unsupported(device: &dyn BlockDevice) {
    if let Some(Err(why)) = inspect::superblock(device).ok().map(|sb| sb.check_support()) {
        eprintln!("segno: note: {why}; what is shown may be wrong or incomplete");
    }
}

/// Whether the journal after the end of a volume has changes that its checkpoint lacks. One that cannot be
/// read is noted.
pub fn has_journaled_changes(device: &Arc<dyn BlockDevice>) -> bool {
    match Checker::new(&device.clone().into()).pending_in_journal() {
        Ok(pending) => matches!(pending, PendingReplay::Journal | PendingReplay::Ahead(_)),
        Err(e) => {
            eprintln!("segno: note: {e}");
            false
        }
    }
}

/// The error message of all commands for an image that ends before its volume does.
fn truncated(path: &str, blocks: u64, needed: u64) -> anyhow::Error {
    let bytes = |blocks: u64| blocks.saturating_mul(BLOCK_SIZE as u64);
    if blocks < SUPERBLOCK_COPIES {
        return anyhow!("{path} is too short for an F2FS volume; was it copied in full?");
    }
    anyhow!(
        "{path} is truncated: its volume has {} bytes ({needed} blocks) and {} are there. Copy it again in full; `segno rescue {path} DIR` \
         copies the files that are in the part that is there",
        bytes(needed),
        bytes(blocks)
    )
}

/// Blocks that every volume begins with.
const SUPERBLOCK_COPIES: u64 = 2;
