//! `segno check`: options and exit codes of fsck(8).
mod args;
mod cancel;
mod feedback;
mod judge;
mod print;
mod repair;
mod replay;

use crate::confine::{ConfineOption, Confinement};
use crate::document::Schema;
use crate::exit::{Outcome, WithCode, fsck};
use crate::external_journal::{External, JournalOption};
use crate::out::stdout;
use crate::path::cause;
use crate::storage::{DeviceOption, StorageOptions};
use anyhow::Result;
pub use args::of_check;
use cancel::{Cancel, Phase};
use judge::Opened;
use repair::Planned;
pub use replay::with_journal;
use segno::{Checker, Judged};
use segno_device::OpenOptions;
use serde_json::json;
use std::io::{IsTerminal, Write, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check an image that is not mounted, and repair it on request
///
/// Without -a, -p or -y nothing is written: changes that a mount would recover after a crash are replayed in
/// memory.
/// Exit code, as of fsck(8): 0 clean, 1 corrected, 2 (with 1) restart as the volume is mounted read-only, 4 errors left,
/// 8 not possible, 16 usage, 32 cancelled.
#[derive(clap::Args, Clone)]
#[command(version, disable_version_flag = true)]
pub struct Args {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Problems to print; the rest are only counted
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_problems: usize,
    /// Write nothing; print what a repair would do
    #[arg(short = 'n', short_alias = 'N', long, conflicts_with_all = ["auto", "preen", "yes"])]
    dry_run: bool,
    /// For use at boot: a quick check if the last unmount was clean, else a full one; repairs only what costs no data
    #[arg(short)]
    auto: bool,
    /// As -a; -p0 to -p2 are accepted
    #[arg(short)]
    preen: bool,
    /// Check in full even if the last unmount was clean
    #[arg(short)]
    force: bool,
    /// Read compressed files, too: report clusters that cannot be unpacked, with the path of their file
    #[arg(long)]
    data: bool,
    /// Repair everything, also where data is lost
    #[arg(short)]
    yes: bool,
    /// Repair a copy of the image, which is made, and leave the image alone
    #[arg(long, value_name = "COPY", conflicts_with_all = ["auto", "preen", "dry_run"])]
    to: Option<PathBuf>,
    /// With -a, -p, -y or --to: keep what is overwritten in this file; alone: put it back
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    undo: Option<PathBuf>,
    #[command(flatten)]
    confine: ConfineOption,
    #[command(flatten)]
    storage: StorageOptions,
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
    /// Image file or block device; further devices of the volume, as with --device
    #[arg(required = true)]
    image: Vec<PathBuf>,
}

pub fn run(args: &Args) -> Outcome {
    let done = args.found().and_then(|args| run_on(&args, &Cancel::default()));
    done.map_err(|e| if e.is::<WithCode>() { e } else { WithCode(fsck::OPERATIONAL, e).into() })
}

/// The outcome of repair and replay.
struct Done {
    planned: Option<Planned>,
    replayed: bool,
    repaired: bool,
    /// The copy is that of a volume without damage.
    copied: bool,
    /// Where the volume is mounted read-only, if it was written.
    stale_mount: Option<PathBuf>,
}

impl Done {
    fn code(&self, judged: &Judged) -> u8 {
        let reboot = if self.stale_mount.is_some() { fsck::REBOOT } else { 0 };
        match (self.repaired, judged.is_clean()) {
            // A repair restores no content.
            (true, _) if judged.report.data_errors > 0 => fsck::CORRECTED | fsck::ERRORS | reboot,
            (true, _) => fsck::CORRECTED | reboot,
            (false, true) => fsck::CLEAN | reboot,
            (false, false) => fsck::ERRORS,
        }
    }
}

fn run_on(args: &Args, cancel: &Cancel) -> Outcome {
    if let Some(path) = args.undo.as_deref().filter(|_| !args.writes()) {
        repair::undo(args, path, cancel)?;
        println!("{} is as it was before the repair", args.name());
        return Ok(ExitCode::from(fsck::CLEAN));
    }
    let (opened, journal) = args.confinement().opened(args.first(), || open(args))?;
    cancel.watch()?;
    journal.verify(&opened.device)?;
    let (checker, judged) = judge::judge(args, journal.checker(&opened.device))?;
    let done = act(args, &opened, (&checker, &journal), &judged, cancel)?;
    if args.json {
        Schema("segno.check", 1).print(stdout(), &to_json(&judged, &done))?;
    } else if !args.quiet || !judged.is_clean() {
        print::print(&mut stdout(), &judged)?;
        print::print_done(&mut stdout(), &done, args)?;
    }
    if ask(args, &done)? {
        drop((opened, journal, checker));
        return run_on(&Args { yes: true, ..args.clone() }, cancel);
    }
    Ok(ExitCode::from(done.code(&judged)))
}

fn open(args: &Args) -> Result<(Opened, External)> {
    let options = OpenOptions { read_only: !args.writes_in_place(), direct: false };
    let opened = judge::open(args, options.read_only)?;
    Ok((opened, External::open(&args.storage.journal, &args.image, options)?))
}

/// Plans, replays and repairs as far as the options permit.
fn act(
    args: &Args,
    opened: &Opened,
    (checker, journal): (&Checker, &External),
    judged: &Judged,
    cancel: &Cancel,
) -> Result<Done> {
    let device = &opened.device;
    let mut done = Done { planned: None, replayed: false, repaired: false, copied: false, stale_mount: None };
    let wanted = args.writes() || args.dry_run || args.interactive();
    if !wanted || judged.quick {
        return Ok(done);
    }
    if let Some(why) = judged.keeps_journal() {
        done.planned = Some(Err(why.into()));
    } else if judged.is_repairable() {
        let planned = repair::plan(args, checker, judged)?;
        if let Ok(plan) = &planned
            && args.writes()
            && !(args.unattended() && plan.has_loss())
        {
            repair::write(args, device, plan, cancel)?;
            done.repaired = true;
        }
        done.planned = Some(planned);
    } else if judged.replayed && args.writes() {
        let copy =
            args.to.as_deref().map(|copy| repair::copied(args, &**device, copy, cancel)).transpose()?;
        cancel.enter(Phase::Writing);
        // The journal still belongs to the image when a copy is made.
        let on_copy = copy.as_ref().map(|copy| journal.in_memory().checker(&copy.device));
        let replayed = on_copy.as_ref().unwrap_or(checker).replay();
        replayed.map_err(|e| cause(&e).context("replaying what a crash left"))?;
        if let Some(copy) = copy {
            copy.new.finish()?;
        }
        done.replayed = true;
    } else if let Some(path) = args.to.as_deref().filter(|_| judged.is_clean()) {
        repair::copied(args, &**device, path, cancel)?.new.finish()?;
        done.copied = true;
    }
    if (done.repaired || done.replayed) && args.to.is_none() {
        done.stale_mount.clone_from(&opened.mounted);
    }
    Ok(done)
}

/// Asks once, if the command runs interactively.
fn ask(args: &Args, done: &Done) -> Result<bool> {
    if !args.interactive() || !matches!(done.planned, Some(Ok(_))) {
        return Ok(false);
    }
    print!("repair the volume? [y/N] ");
    stdout().flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn to_json(judged: &Judged, done: &Done) -> serde_json::Value {
    let mut value = json!(judged.report);
    value["replay"] = json!({
        "needed": judged.replayed,
        "written": done.replayed,
        "error": judged.replay_error(),
        "journal_ahead": judged.lost_checkpoint(),
        "journal_lost": judged.lost_changes(),
    });
    value["repair"] = match &done.planned {
        None => serde_json::Value::Null,
        Some(Ok(plan)) => json!({
            "actions": plan.actions,
            "loss": plan.has_loss(),
            "blocks": plan.addresses().collect::<Vec<_>>(),
            "written": done.repaired,
        }),
        Some(Err(why)) => json!({ "refused": why, "written": false }),
    };
    value
}

impl Args {
    fn unattended(&self) -> bool {
        self.auto || self.preen
    }

    fn writes_in_place(&self) -> bool {
        self.writes() && self.to.is_none()
    }

    fn writes(&self) -> bool {
        self.unattended() || self.yes || self.to.is_some()
    }

    /// Whether the user can answer a question.
    fn interactive(&self) -> bool {
        let terminals = stdin().is_terminal() && stdout().is_terminal();
        terminals && !self.writes() && !self.dry_run && !self.json && !self.quiet
    }

    /// The same with the devices that its options and tags name.
    fn found(&self) -> Result<Self> {
        let image = self.storage.devices.after(&self.image)?;
        let journal = JournalOption { journal: self.storage.journal.path()? };
        let storage = StorageOptions { devices: DeviceOption::default(), journal };
        Ok(Self { image, storage, ..self.clone() })
    }

    /// The image with the superblock.
    fn first(&self) -> &Path {
        self.image.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// The image, for messages.
    fn name(&self) -> String {
        self.first().display().to_string()
    }

    /// Rights that are needed after the volume is open.
    fn confinement(&self) -> Confinement {
        let made = [&self.to, &self.undo].into_iter().flatten();
        let mut all = made.fold(Confinement::new(&self.confine), |all, path| all.makes(path));
        if let Some(fd) = self.completion.filter(|&fd| fd > 0) {
            all = all.writes(&feedback::path(fd));
        }
        if !self.interactive() {
            return all;
        }
        // After a yes the same volume is opened for the repair.
        let files = self.image.iter().chain(&self.storage.journal.journal);
        files.fold(all, |all, path| all.opens_again(path))
    }
}
