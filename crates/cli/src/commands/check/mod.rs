//! `segno check`: options and exit codes of fsck(8).
mod args;
mod feedback;
mod print;
mod replay;

use crate::exit::{Outcome, WithCode, fsck};
use crate::image;
use anyhow::{Context, Result, anyhow};
pub use args::of_check;
use feedback::Feedback;
use segno_check::{CheckError, CheckOptions, Report, check, check_quick};
use segno_device::{BlockDevice, DeviceError, FileDevice, OpenOptions, open_volume};
use segno_repair::Overlay;
use serde_json::json;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Check an image that is not mounted
///
/// Without -a, -p or -y nothing is written: what a crash left to replay is replayed in memory.
/// Exit code, as of fsck(8): 0 clean, 1 corrected, 4 errors left, 8 not possible, 16 usage.
#[derive(clap::Args)]
#[command(version, disable_version_flag = true)]
pub struct Args {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Problems to print; the rest are only counted
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_problems: usize,
    /// Write nothing
    #[arg(short = 'n', short_alias = 'N', long, conflicts_with_all = ["auto", "preen", "yes"])]
    dry_run: bool,
    /// For use at boot: a quick check if the last unmount was clean, else a full one; replays what a crash left
    #[arg(short)]
    auto: bool,
    /// As -a; -p0 to -p2 are accepted
    #[arg(short)]
    preen: bool,
    /// Check in full even if the last unmount was clean
    #[arg(short)]
    force: bool,
    /// Replay what a crash left
    #[arg(short)]
    yes: bool,
    /// Write progress to this file descriptor in the form that fsck(8) reads
    #[arg(short = 'C', value_name = "FD", allow_negative_numbers = true)]
    completion: Option<i32>,
    /// Print the version
    #[arg(short = 'V', action = clap::ArgAction::Version)]
    version: Option<bool>,
    /// Print nothing but problems
    #[arg(short)]
    quiet: bool,
    /// Accepted, as fsck.f2fs does
    #[arg(short, value_name = "N", hide = true)]
    debug: Option<i32>,
    /// Accepted, as fsck.f2fs does
    #[arg(short, value_name = "N", hide = true)]
    cache: Option<u32>,
    /// Accepted, as fsck.f2fs does
    #[arg(long, hide = true)]
    kernel_check: bool,
    /// Accepted, as fsck.f2fs does
    #[arg(long, hide = true)]
    no_kernel_check: bool,
    /// Image file or block device; further devices of the volume if they have moved
    #[arg(required = true)]
    image: Vec<PathBuf>,
}

/// The outcome of a check, with replay.
pub struct Judged {
    report: Report,
    /// Only the tables were read.
    quick: bool,
    /// The report is on the volume with the chain and the journal replayed.
    replayed: bool,
    /// Why they cannot be replayed.
    mount_error: Option<segno_engine::Error>,
}

impl Judged {
    fn is_clean(&self) -> bool {
        self.report.is_clean() && self.mount_error.is_none()
    }
}

pub fn run(args: &Args) -> Outcome {
    run_on(args).map_err(|e| if e.is::<WithCode>() { e } else { WithCode(fsck::OPERATIONAL, e).into() })
}

fn run_on(args: &Args) -> Outcome {
    let device = open(args)?;
    let judged = judge(args, &device)?;
    let written = judged.is_clean() && judged.replayed && args.writes();
    if written {
        replay::replay(device).context("replaying what a crash left")?;
    }
    let mut out = stdout().lock();
    if args.json {
        let mut value = json!(judged.report);
        value["replay"] = json!({ "needed": judged.replayed, "written": written });
        value["replay"]["error"] = json!(judged.mount_error.as_ref().map(ToString::to_string));
        writeln!(out, "{value}")?;
    } else if !args.quiet || !judged.is_clean() {
        print::print(&mut out, &judged)?;
        if written {
            writeln!(out, "what a crash left was replayed")?;
        }
    }
    Ok(ExitCode::from(if judged.is_clean() { fsck::CLEAN } else { fsck::ERRORS }))
}

impl Args {
    fn unattended(&self) -> bool {
        self.auto || self.preen
    }

    fn writes(&self) -> bool {
        self.unattended() || self.yes
    }
}

/// Opens all devices, or only the first one if it is too damaged to name the others: there is damage to report then.
fn open(args: &Args) -> Result<Arc<dyn BlockDevice>> {
    let (paths, options) = (&args.image, OpenOptions { read_only: !args.writes(), direct: false });
    match (image::patiently(|| open_volume(paths, options)), paths.as_slice()) {
        (Ok(device), _) => Ok(device),
        (Err(DeviceError::NoSuperblock { .. } | DeviceError::TooSmall { .. }), [only]) => {
            Ok(Arc::new(FileDevice::open(only, options).map_err(image::explain)?))
        }
        (Err(e), _) => Err(image::explain(e)),
    }
}

fn judge(args: &Args, device: &Arc<dyn BlockDevice>) -> Result<Judged> {
    let options = CheckOptions { max_problems: args.max_problems };
    let done = |report, quick| Judged { report, quick, replayed: false, mount_error: None };
    if args.unattended() && !args.force {
        let quick = explain(args, check_quick(&**device, &options))?;
        let calm = quick.problems.is_empty() && quick.complete && quick.summary.clean_unmount;
        if calm && !replay::is_pending(device, &quick)? {
            return Ok(done(quick, true));
        }
    }
    let name = args.image.first().map(|p| p.display().to_string()).unwrap_or_default();
    let mut feedback = Feedback::new(args.completion, name);
    let mut full = |device: &dyn BlockDevice| {
        explain(args, check(device, &options, &mut |step| feedback.show(step)))
    };
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
fn unreadable(args: &Args, e: anyhow::Error) -> anyhow::Error {
    let image = args.image.first().map(|p| p.display().to_string()).unwrap_or_default();
    anyhow!(
        "{e:#}; the device is failing, not the volume, and nothing was written: `segno rescue {image} TARGET` copies what can be read"
    )
}
