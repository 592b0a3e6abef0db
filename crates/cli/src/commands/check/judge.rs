//! The check, with what a crash left replayed in memory.
use super::Args;
use super::feedback::Feedback;
use super::replay::{self, Left};
use crate::external_journal::External;
use crate::{image, store};
use anyhow::{Context, Result, anyhow};
use segno_check::{CheckError, CheckOptions, Report, check, check_quick};
use segno_device::{
    BlockDevice, DeviceError, FileDevice, Holder, OpenOptions, Overlay, open_volume_recorded,
};
use segno_journal::Stale;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const AHEAD: &str = "a repair would give up what the journal shows to be lost. `segno rescue` copies files that are still on the device; \
                     `segno journal discard` then gives up the journal, and a check repairs the rest";
const NOT_NAMED: &str = "a repair would give up the changes in the external journal";

/// The outcome of a check, with replay.
pub struct Judged {
    pub report: Report,
    /// Only the tables were read.
    pub quick: bool,
    /// The report is on the volume with the chain and the journal replayed.
    pub replayed: bool,
    /// Why they cannot be replayed.
    pub mount_error: Option<segno_engine::Error>,
    /// State beyond the checkpoint, or why it cannot be read. With a journal that is ahead of the volume nothing is written: the next checkpoint
    /// would remove the evidence, and reuse blocks that the lost one refers to.
    pub left: Result<Left>,
}

impl Judged {
    pub fn is_clean(&self) -> bool {
        self.report.is_clean() && self.mount_error.is_none() && self.ahead().is_none()
    }

    /// The journal that is ahead of the volume, whose newest checkpoint is lost.
    pub fn ahead(&self) -> Option<&Stale> {
        match &self.left {
            Ok(Left::Ahead(why)) => Some(why),
            _ => None,
        }
    }

    /// Why the volume is not repaired: its next checkpoint would give up a journal.
    pub fn keeps_journal(&self) -> Option<&'static str> {
        match &self.left {
            Ok(Left::Ahead(_)) => Some(AHEAD),
            Ok(Left::NotNamed) => Some(NOT_NAMED),
            _ => None,
        }
    }
}

/// The devices of a volume.
pub struct Opened {
    pub device: Arc<dyn BlockDevice>,
    /// Where it is mounted read-only, if it is open for writing.
    pub mounted: Option<PathBuf>,
}

/// Opens all devices, or only the first one if it is too damaged to name the others: there is damage to report then. A volume
/// that is mounted read-only, as the root is at boot, can be checked, and repaired if it is a block device.
pub fn open(args: &Args, read_only: bool) -> Result<Opened> {
    let (paths, options) = (args.paths(), OpenOptions { read_only, direct: false });
    if let Some(device) = store::open(&paths, options, &store::Settings::default())? {
        return Ok(Opened { device, mounted: None });
    }
    match (image::open_damaged(&paths, options, open_volume_recorded), paths.as_slice()) {
        (Ok(device), _) => Ok(Opened { device, mounted: None }),
        (Err(e), [only]) => held(only, e),
        (Err(e), _) => Err(image::explain(e)),
    }
}

/// A block device that cannot be opened for writing as it is mounted read-only.
fn held(path: &Path, refused: DeviceError) -> Result<Opened> {
    let Some(Holder::Mount { dir, read_only: true, .. }) = refused.holder() else {
        return Err(image::explain(refused));
    };
    let device = FileDevice::open_held(path).map_err(image::explain)?;
    Ok(Opened { device: Arc::new(device), mounted: Some(dir.clone()) })
}

/// Checks a volume; of one that was unmounted cleanly only the tables, if that is enough.
pub fn judge(args: &Args, device: &Arc<dyn BlockDevice>, journal: &External) -> Result<Judged> {
    let options = CheckOptions { max_problems: args.max_problems, data: args.data };
    let done = |report, quick, left| Judged { report, quick, replayed: false, mount_error: None, left };
    if args.unattended() && !args.force && !args.data {
        let quick = explain(args, check_quick(&**device, &options))?;
        let calm = quick.problems.is_empty() && quick.complete && quick.summary.clean_unmount;
        if calm && replay::left(device, &quick, journal)? == Left::Nothing {
            return Ok(done(quick, true, Ok(Left::Nothing)));
        }
    }
    let mut feedback = Feedback::new(args.completion, args.name());
    let mut full =
        |device: &dyn BlockDevice| explain(args, check(device, &options, &mut |step| feedback.show(step)));
    let report = full(&**device)?;
    let left = replay::left(device, &report, journal);
    match &left {
        Ok(Left::NotNamed) => {
            let error = Some(segno_engine::Error::JournalNotNamed);
            return Ok(Judged { mount_error: error, ..done(report, false, left) });
        }
        Ok(Left::Ahead(_) | Left::Nothing) => return Ok(done(report, false, left)),
        _ if !report.is_clean() => return Ok(done(report, false, left)),
        _ => {}
    }
    let left = Ok(left?);
    let overlay = Arc::new(Overlay::new(device.clone()));
    match replay::replay(overlay.clone(), journal.in_memory()) {
        Ok(()) => Ok(Judged { replayed: true, ..done(full(&*overlay)?, false, left) }),
        Err(e) if is_failure(&e) => Err(unreadable(args, e.into())),
        Err(e) => Ok(Judged { mount_error: Some(e), ..done(report, false, left) }),
    }
}

/// Whether the device has failed, as opposed to damage that names a block which cannot be.
fn is_failure(e: &segno_engine::Error) -> bool {
    matches!(e, segno_engine::Error::Io { source, .. } if source.kind() != ErrorKind::InvalidInput)
}

fn explain(args: &Args, outcome: Result<Report, CheckError>) -> Result<Report> {
    match outcome {
        Ok(report) => Ok(report),
        Err(e @ CheckError::Io { .. }) => Err(unreadable(args, e.into())),
        Err(e) => Err(e).with_context(|| format!("{} cannot be checked", args.name())),
    }
}

/// A read error is not damage: nothing can be concluded from it, so nothing is written.
pub fn unreadable(args: &Args, e: anyhow::Error) -> anyhow::Error {
    let image = args.name();
    anyhow!(
        "{e:#}; the device is failing, not the volume, and nothing was written: `segno rescue {image} TARGET` copies what can be read"
    )
}
