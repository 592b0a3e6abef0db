//! The check, with what a crash left replayed in memory.
use super::feedback::Feedback;
use super::{Args, replay};
use crate::{image, store};
use anyhow::{Context, Result, anyhow};
use segno_check::{CheckError, CheckOptions, Report, check, check_quick};
use segno_device::{BlockDevice, DeviceError, OpenOptions, open_storage, open_volume};
use segno_repair::Overlay;
use std::sync::Arc;

/// The outcome of a check, with replay.
pub struct Judged {
    pub report: Report,
    /// Only the tables were read.
    pub quick: bool,
    /// The report is on the volume with the chain and the journal replayed.
    pub replayed: bool,
    /// Why they cannot be replayed.
    pub mount_error: Option<segno_engine::Error>,
}

impl Judged {
    pub fn is_clean(&self) -> bool {
        self.report.is_clean() && self.mount_error.is_none()
    }
}

/// Opens all devices, or only the first one if it is too damaged to name the others: there is damage to report then.
pub fn open(args: &Args, read_only: bool) -> Result<Arc<dyn BlockDevice>> {
    let (paths, options) = (&args.image, OpenOptions { read_only, direct: false });
    if let Some(device) = store::open(paths, options, &store::Settings::default())? {
        return Ok(device);
    }
    match (image::patiently(|| open_volume(paths, options)), paths.as_slice()) {
        (Ok(device), _) => Ok(device),
        (Err(e @ (DeviceError::NoSuperblock { .. } | DeviceError::TooSmall { .. })), [only]) => {
            image::note_truncated(e);
            open_storage(only, options).map_err(image::explain)
        }
        (Err(e), _) => Err(image::explain(e)),
    }
}

/// Checks a volume; of one that was unmounted cleanly only the tables, if that is enough.
pub fn judge(args: &Args, device: &Arc<dyn BlockDevice>) -> Result<Judged> {
    let options = CheckOptions { max_problems: args.max_problems };
    let done = |report, quick| Judged { report, quick, replayed: false, mount_error: None };
    if args.unattended() && !args.force {
        let quick = explain(args, check_quick(&**device, &options))?;
        let calm = quick.problems.is_empty() && quick.complete && quick.summary.clean_unmount;
        if calm && !replay::is_pending(device, &quick)? {
            return Ok(done(quick, true));
        }
    }
    let mut feedback = Feedback::new(args.completion, args.name());
    let mut full =
        |device: &dyn BlockDevice| explain(args, check(device, &options, &mut |step| feedback.show(step)));
    let report = full(&**device)?;
    if !report.is_clean() || !replay::is_pending(device, &report)? {
        return Ok(done(report, false));
    }
    let overlay = Arc::new(Overlay::new(device.clone()));
    match replay::replay(overlay.clone()) {
        Ok(()) => Ok(Judged { replayed: true, ..done(full(&*overlay)?, false) }),
        Err(e @ segno_engine::Error::Io { .. }) => Err(unreadable(args, e.into())),
        Err(e) => Ok(Judged { mount_error: Some(e), ..done(report, false) }),
    }
}

fn explain(args: &Args, outcome: Result<Report, CheckError>) -> Result<Report> {
    match outcome {
        Ok(report) => Ok(report),
        Err(e @ CheckError::Io { .. }) => Err(unreadable(args, e.into())),
        Err(e) => Err(e).context("the check could not be done"),
    }
}

/// A read error is not damage: nothing can be concluded from it, so nothing is written.
pub fn unreadable(args: &Args, e: anyhow::Error) -> anyhow::Error {
    let image = args.name();
    anyhow!(
        "{e:#}; the device is failing, not the volume, and nothing was written: `segno rescue {image} TARGET` copies what can be read"
    )
}
