//! Runs the check, and explains why a check was not possible.
use super::Args;
use super::feedback::Feedback;
use crate::path::cause;
use crate::{image, store};
use anyhow::{Result, anyhow};
use segno::{CheckOptions, Checker, Judged};
use segno_check::CheckError;
use segno_device::{BlockDevice, DeviceError, FileDevice, InUseBy, OpenOptions, open_volume_recorded};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The devices of a volume.
pub struct Opened {
    pub device: Arc<dyn BlockDevice>,
    /// Where it is mounted read-only, if it is open for writing.
    pub mounted: Option<PathBuf>,
}

/// Opens all devices, or only the first one if it is too damaged to name the others: there is damage to report then. A volume
/// that is mounted read-only, as the root is at boot, can be checked, and repaired if it is a block device.
pub fn open(args: &Args, read_only: bool) -> Result<Opened> {
    let (paths, options) = (args.image.as_slice(), OpenOptions { read_only, direct: false });
    if let Some(device) = store::open(paths, options, &store::Settings::default())? {
        return Ok(Opened { device, mounted: None });
    }
    match (image::open_damaged(paths, options, open_volume_recorded), paths) {
        (Ok(device), _) => Ok(Opened { device, mounted: None }),
        (Err(e), [only]) => held(only, e),
        (Err(e), _) => Err(image::explain(e)),
    }
}

/// A block device that cannot be opened for writing as it is mounted read-only.
fn held(path: &Path, refused: DeviceError) -> Result<Opened> {
    let Some(InUseBy::Mount { dir, read_only: true, .. }) = refused.in_use_by() else {
        return Err(image::explain(refused));
    };
    let device = FileDevice::open_held(path).map_err(image::explain)?;
    Ok(Opened { device: Arc::new(device), mounted: Some(dir.clone()) })
}

/// Checks a volume; of one that was unmounted cleanly only the tables, if that is enough.
pub fn judge(args: &Args, checker: Checker) -> Result<(Checker, Judged)> {
    let checker = checker.quick(args.unattended() && !args.force);
    let options = CheckOptions { max_problems: args.max_problems, data: args.data };
    let mut feedback = Feedback::new(args.completion, args.name());
    let judged = checker.check(&options, |step| feedback.show(step)).map_err(|e| explain(args, &e))?;
    Ok((checker, judged))
}

fn explain(args: &Args, e: &segno::Error) -> anyhow::Error {
    match e.source().and_then(|e| e.downcast_ref::<CheckError>()) {
        _ if is_failure(e) => unreadable(args, e),
        Some(_) => cause(e).context(format!("{} cannot be checked", args.name())),
        None => cause(e),
    }
}

/// Whether the device has failed.
pub fn is_failure(e: &segno::Error) -> bool {
    use segno_repair::RepairError::Check;
    let Some(source) = e.source() else { return false };
    matches!(source.downcast_ref(), Some(CheckError::Io { .. }))
        || matches!(source.downcast_ref(), Some(Check(CheckError::Io { .. })))
        || matches!(source.downcast_ref(), Some(segno_engine::Error::Io { .. }))
}

/// A read error is not damage: nothing can be concluded from it, so nothing is written.
pub fn unreadable(args: &Args, e: &segno::Error) -> anyhow::Error {
    let (e, image) = (cause(e), args.name());
    anyhow!(
        "{e:#}; the device is failing, not the volume, and nothing was written: `segno rescue {image} TARGET` copies what can be read"
    )
}
