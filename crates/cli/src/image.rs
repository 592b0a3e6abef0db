//! Opening images, and saying in plain words why one cannot be opened.
use crate::mount::table;
use anyhow::{Context, anyhow};
use segno_device::{BlockDevice, DeviceError, OpenOptions, open_volume};
use segno_engine::{Error, MountOptions, Observer, Volume};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// Opens the volume on these devices, the one with the superblock first.
pub fn open(paths: &[PathBuf], options: OpenOptions) -> anyhow::Result<Arc<dyn BlockDevice>> {
    patiently(|| open_volume(paths, options)).map_err(explain)
}

/// Tries again for a while when the image is in use but not mounted: umount(8) returns before the server has closed it.
pub fn patiently<T>(open: impl Fn() -> Result<T, DeviceError>) -> Result<T, DeviceError> {
    let start = Instant::now();
    loop {
        match open() {
            Err(DeviceError::InUse { path })
                if start.elapsed() < PATIENCE && table::mounted_from(Path::new(&path)).is_none() =>
            {
                std::thread::sleep(POLL);
            }
            other => return other,
        }
    }
}

/// Prints what the engine has to say.
pub fn teller() -> Observer {
    Observer::new(|notice| eprintln!("segno: {notice}"))
}

/// The volume for looking at, without a mount. What a crash left to recover is not seen, and the user is told so.
pub fn volume_read_only(path: &Path) -> anyhow::Result<Arc<Volume>> {
    let device = open(&[path.to_owned()], OpenOptions { read_only: true, direct: false })?;
    let options =
        MountOptions { read_only: true, background: false, observer: teller(), ..MountOptions::default() };
    let volume = match Volume::mount(device.clone(), options.clone()) {
        Err(Error::NeedsRecovery) => {
            eprintln!(
                "segno: note: a crash left fsynced data in {}; the next mount recovers it",
                path.display()
            );
            Volume::mount(device, MountOptions { norecovery: true, ..options })
        }
        other => other,
    };
    volume.with_context(|| cannot_read(path))
}

/// The volume for changing, without a mount. The caller unmounts it.
pub fn volume_read_write(path: &Path) -> anyhow::Result<Arc<Volume>> {
    let device = open(&[path.to_owned()], OpenOptions::default())?;
    let options = MountOptions { background: false, observer: teller(), ..MountOptions::default() };
    Volume::mount(device, options).with_context(|| cannot_read(path))
}

/// Context of an error while a volume is being mounted.
pub fn cannot_read(path: &Path) -> String {
    format!("cannot use the volume on {0} (`segno check {0}` tells more)", path.display())
}

/// Adds what the program knows beyond the device: who uses it, what to try.
pub fn explain(e: DeviceError) -> anyhow::Error {
    match &e {
        DeviceError::InUse { path } => match table::mounted_from(Path::new(path)) {
            Some(dir) => anyhow!("{path} is mounted at {0}: `segno umount {0}` first", dir.display()),
            None => anyhow!("{path} is in use: another segno, or the kernel, has it open"),
        },
        DeviceError::ReadOnly { path, source } => {
            anyhow!("{path} cannot be written ({source}): mount it with -o ro, or change its permissions")
        }
        DeviceError::NoSuperblock { path, copy0, copy1 } if copy0.why == MAGIC && copy1.why == MAGIC => {
            anyhow!("{path} is not an F2FS volume; `segno mkfs {path}` makes one and erases what is there")
        }
        DeviceError::NoSuperblock { path, .. } => anyhow!("{e} (`segno check {path}` tells more)"),
        DeviceError::NoDirect { .. } => anyhow!("{e}: leave out -o direct"),
        _ => e.into(),
    }
}

/// What a superblock without F2FS's magic is refused for.
const MAGIC: &str = "magic number";
