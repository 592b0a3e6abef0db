//! `segno check`: reads only, with the exit codes of fsck(8).
use crate::exit::{Outcome, WithCode, fsck};
use crate::image;
use crate::path::reason;
use crate::progress::Progress;
use anyhow::{Context, Result};
use segno::{CheckOptions, CheckPass as Pass, CheckProgress, CheckReport as Report, Device, Severity};
use segno_device::{BlockDevice, DeviceError, FileDevice, OpenOptions, open_volume};
use serde_json::json;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Check an image that is not mounted; never writes
#[derive(clap::Args)]
pub struct Args {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Problems to print; the rest are only counted
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_problems: usize,
    /// Image file or block device; further devices of the volume if they have moved
    #[arg(required = true)]
    image: Vec<PathBuf>,
}

pub fn run(args: &Args) -> Outcome {
    let report = examine(args).map_err(|e| WithCode(fsck::OPERATIONAL, e))?;
    if args.json {
        writeln!(stdout(), "{}", json!(report))?;
    } else {
        print(&mut stdout().lock(), &report)?;
    }
    Ok(ExitCode::from(if report.is_clean() { fsck::CLEAN } else { fsck::ERRORS }))
}

fn examine(args: &Args) -> Result<Report> {
    let device = Device::from(open(&args.image)?);
    let mut progress = Progress::new();
    let options = CheckOptions::new().max_problems(args.max_problems);
    let show = |p: CheckProgress| {
        progress.show(|| match p.total {
            0 => format!("{} …", doing(p.pass)),
            total => format!("{} {} of {total}", doing(p.pass), p.done),
        });
    };
    reason(segno::check_with(&device, &options, show)).context("the check could not be done")
}

/// Opens all devices, or only the first one if it is too damaged to name the others: there is damage to report then.
fn open(paths: &[PathBuf]) -> Result<Arc<dyn BlockDevice>> {
    let options = OpenOptions { read_only: true, direct: false };
    match (image::patiently(|| open_volume(paths, options)), paths) {
        (Ok(device), _) => Ok(device),
        (Err(DeviceError::NoSuperblock { .. } | DeviceError::TooSmall { .. }), [only]) => {
            Ok(Arc::new(FileDevice::open(only, options).map_err(image::explain)?))
        }
        (Err(e), _) => Err(image::explain(e)),
    }
}

fn doing(pass: Pass) -> &'static str {
    match pass {
        Pass::Superblock => "superblock",
        Pass::Checkpoint => "checkpoint",
        Pass::Sit => "segment information table",
        Pass::Nat => "node address table",
        Pass::Nodes => "nodes",
        Pass::Walk => "files and directories",
        Pass::Totals => "totals",
    }
}

fn print(out: &mut impl Write, report: &Report) -> Result<()> {
    for p in &report.problems {
        let severity = match p.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        writeln!(out, "{severity}: {p}")?;
    }
    let listed = report.problems.len() as u64;
    let all = report.errors.saturating_add(report.warnings);
    if all > listed {
        writeln!(out, "… and {} more", all - listed)?;
    }
    let s = &report.summary;
    if report.complete {
        writeln!(
            out,
            "{} files, {} directories, {} symlinks, {} others in {} nodes and {} data blocks; {} of {} segments free",
            s.files,
            s.dirs,
            s.symlinks,
            s.special_files,
            s.nodes,
            s.data_blocks,
            s.free_segments,
            s.main_segments
        )?;
        let left = if s.clean_unmount { "after a clean unmount" } else { "not after a clean unmount" };
        writeln!(out, "checkpoint {:#x} in pack {}, {left}", s.checkpoint_ver, s.pack)?;
    }
    if s.roll_forward.fsynced > 0 {
        writeln!(out, "{} fsynced nodes wait for the next mount to recover them", s.roll_forward.fsynced)?;
    }
    match (report.complete, report.errors) {
        (false, _) => writeln!(out, "the volume is too damaged to look further")?,
        (true, 0) => writeln!(out, "clean")?,
        (true, n) => writeln!(out, "{n} error(s), {} warning(s)", report.warnings)?,
    }
    Ok(())
}
