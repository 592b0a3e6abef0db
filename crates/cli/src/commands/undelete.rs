//! `segno undelete`: files that were deleted.
use crate::document::Schema;
use crate::exit::Outcome;
use crate::external_journal::External;
use crate::out::stdout;
use crate::preserve::{self, PreserveOption};
use crate::progress::Progress;
use crate::salvage::{self, Listing, Search};
use crate::storage::ImageArgs;
use crate::{image, time};
use anyhow::{Result, bail};
use segno::Time;
use segno::inspect;
use segno_device::BlockDevice;
use segno_rescue::output::{OutputOptions, Plan, Target};
use segno_rescue::scan::BadBlocks;
use segno_rescue::undelete::{self, DeletedInode, Lost, Proof};
use segno_rescue::{Class, Found, RescueError, Tree, Verdicts, Volume};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::HashSet;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

const SCHEMA: Schema = Schema("segno.undelete", 1);

/// Find deleted files and copy them to a directory
///
/// Unmount the volume first: writes to it, and discards, destroy deleted data. The image is only read.
/// Without --to, files are listed with the share of their blocks that is proven to be theirs still; other
/// blocks become holes. Blocks of zeros are not proven, as a discarded block reads as zeros. The exit code is
/// 1 if any file is partial, doubtful or not copied.
#[derive(clap::Args)]
pub struct Args {
    /// List only, also with --to
    #[arg(long)]
    list: bool,
    /// Files that can have been deleted since then: seconds since 1970, or YYYY-MM-DD[ HH:MM[:SS]] in UTC
    #[arg(long, value_name = "TIME", value_parser = time::seconds)]
    since: Option<u64>,
    /// Directory to copy to, made if it does not exist
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Copy also blocks that may be another file's by now; such files get the suffix .unproven
    #[arg(long)]
    unproven: bool,
    #[command(flatten)]
    preserve: PreserveOption,
    /// List the volume as of the older checkpoint
    #[arg(long, conflicts_with_all = ["since", "to", "unproven"])]
    previous: bool,
    /// Keep what the search of the volume finds in this file; if it is there, the volume is not searched again
    #[arg(long, value_name = "FILE")]
    scan: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    of: ImageArgs,
    /// Paths on the volume that the files had; all below them are meant
    paths: Vec<PathBuf>,
}

pub fn run(args: &Args) -> Outcome {
    let stop = salvage::set_by([SIGINT, SIGTERM])?;
    let images = args.of.devices()?;
    let mut device = salvage::open(&images, None)?;
    refuse_unsupported(args, &*device)?;
    if !args.previous {
        let journal = External::open(&args.of.storage.journal, &images, image::READ_ONLY)?;
        device = super::check::with_journal(device, &journal)?;
    }
    if args.unproven && !rustix::process::geteuid().is_root() {
        bail!("--unproven may show other users' data: only root may use it");
    }
    let kept = args.scan.as_deref();
    for path in kept.into_iter().chain(target(args)) {
        salvage::refuse_inside(&images, path)?;
    }
    let search =
        Search { sources: &images, offset: None, known_bad: &BadBlocks::default(), kept, stop: &stop };
    salvage::with_volume(&*device, &search, |device, found| {
        if args.previous { previous(args, device, found) } else { deleted(args, device, found, &stop) }
    })
}

/// Nothing is proven by tables whose rules are not known.
fn refuse_unsupported(args: &Args, device: &dyn BlockDevice) -> Result<()> {
    match inspect::superblock(device).ok().map(|sb| sb.check_support()) {
        Some(Err(why)) => {
            bail!(
                "{0}: {why}. `segno rescue {0} DIR` copies the files that it finds",
                args.of.image.display()
            )
        }
        _ => Ok(()),
    }
}

/// Whether a path is one of those named, or below it.
fn wanted(args: &Args, path: &[u8]) -> bool {
    let trimmed = |p: &PathBuf| {
        let slash = |b: &u8| *b == b'/';
        let parts: Vec<&[u8]> = p.as_os_str().as_bytes().split(slash).filter(|n| !n.is_empty()).collect();
        parts.join(&b'/')
    };
    args.paths.is_empty()
        || args.paths.iter().map(trimmed).any(|p| {
            let p = p.as_slice();
            p.is_empty() || path == p || path.strip_prefix(p).is_some_and(|rest| rest.first() == Some(&b'/'))
        })
}

fn previous(args: &Args, device: &dyn BlockDevice, found: Found) -> Outcome {
    let volume = Volume::find(device, found, true);
    if volume.pack.is_none() {
        bail!("the older checkpoint of {} is damaged or was never written", args.of.image.display());
    }
    let tree = Tree::build(&volume);
    let verdicts = Verdicts::of(&volume, &tree, &mut |_, _| {});
    let plan = Plan { volume: &volume, tree: &tree, verdicts: &verdicts, only: None };
    let mut listing = Listing::new(args.json, SCHEMA);
    for entry in plan.entries().filter(|&e| wanted(args, &tree.path(e))) {
        listing.add(&plan.item(entry), false)?;
    }
    let version = volume.pack.as_ref().map(segno_layout::Pack::version);
    listing.finish("files and directories", json!({ "checkpoint": version }))
}

fn deleted(args: &Args, device: &dyn BlockDevice, found: Found, stop: &AtomicBool) -> Outcome {
    let volume = Volume::find(device, found, false);
    undelete::require(&volume)?;
    let tree = Tree::build(&volume);
    let dead = undelete::deleted(&volume, &tree);
    let mut progress = Progress::default();
    let proof = Proof::of(&volume, &dead, &mut |done, total| {
        progress.show(|| format!("comparing node {done} of {total}"));
    });
    let mut target = open_target(args)?;
    let mut output = target.as_mut().map(|target| undelete::Output {
        target,
        taken: HashSet::new(),
        unproven: args.unproven,
        stop,
    });
    let (mut files, mut counts) = (Vec::new(), Counts::default());
    for d in &dead {
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let mut lost = undelete::describe(&volume, &tree, d, &proof);
        if !wanted(args, &d.path.join(&b'/'))
            || args.since.is_some_and(|t| lost.deleted_by.is_some_and(|by| by < t))
        {
            continue;
        }
        if let Some(output) = &mut output {
            progress.show(|| lost.item.shown());
            copy(&volume, d, &proof, output, &mut lost)?;
        }
        counts.add(&lost);
        if args.json { files.push(json!(lost)) } else { print(&lost)? }
    }
    drop(progress);
    let Counts { whole, doubtful, failed } = counts;
    let left_out = target.as_ref().map(Target::left_out).unwrap_or_default();
    if args.json {
        let report = json!({
            "files": Value::from(files), "whole": whole, "doubtful": doubtful, "failed": failed, "left_out": left_out,
        });
        SCHEMA.print(stdout(), &report)?;
    } else {
        writeln!(stdout(), "{}", counts.words(target.is_some()))?;
        preserve::note(&left_out);
        if target.is_none() {
            eprintln!(
                "segno: do not write to the volume until the files are copied: its free space is used again, and discarded"
            );
        }
    }
    Ok(if doubtful + failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The directory that is filled.
fn target(args: &Args) -> Option<&Path> {
    args.to.as_deref().filter(|_| !args.list)
}

fn open_target(args: &Args) -> Result<Option<Target>> {
    let Some(path) = target(args) else { return Ok(None) };
    let options = OutputOptions { resume: false, preserve: args.preserve.chosen() };
    Ok(Some(Target::open(path, options)?))
}

/// Counts of deleted files.
#[derive(Default)]
struct Counts {
    whole: u64,
    doubtful: u64,
    failed: u64,
}

impl Counts {
    fn add(&mut self, lost: &Lost) {
        let count = match (&lost.item.failed, lost.item.class) {
            (Some(_), _) => &mut self.failed,
            (None, Class::C) => &mut self.doubtful,
            (None, _) => &mut self.whole,
        };
        *count += 1;
    }

    fn words(&self, copied: bool) -> String {
        let Self { whole, doubtful, failed } = self;
        let rest = if copied { format!(", {failed} not copied") } else { String::new() };
        format!(
            "{} deleted files: {whole} whole, {doubtful} partial or doubtful{rest}",
            whole + doubtful + failed
        )
    }
}

fn copy(
    volume: &Volume<'_>,
    dead: &DeletedInode,
    proof: &Proof,
    output: &mut undelete::Output<'_>,
    lost: &mut Lost,
) -> Result<()> {
    match undelete::copy(volume, dead, proof, output, lost) {
        Err(e @ (RescueError::NoSpace { .. } | RescueError::Interrupted)) => Err(e.into()),
        Err(e) => {
            lost.item.failed = Some(e.to_string());
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

fn print(lost: &Lost) -> Result<()> {
    let share = lost.blocks.percent();
    let time = time::text(Time { secs: lost.changed.cast_signed(), nsec: 0 });
    let mut out = stdout();
    write!(out, "{share:>3} % {:>12} {time} {}", lost.item.size, lost.item.shown())?;
    if !lost.item.reasons.is_empty() {
        write!(out, "  ({})", lost.item.reasons.join("; "))?;
    }
    if let Some(why) = &lost.item.failed {
        write!(out, "  not copied: {why}")?;
    }
    Ok(writeln!(out)?)
}
