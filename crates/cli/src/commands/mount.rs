//! `segno mount`: starts a server and returns when the mount answers.
use crate::exit::Outcome;
use crate::mount::options::Settings;
use crate::mount::{Plan, Readiness, run as serve, spawn};
use anyhow::Result;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = OPTIONS)]
pub struct Args {
    /// Mount options
    #[arg(short, long, value_name = "OPTION,…")]
    pub options: Vec<String>,
    /// Stay in front instead of returning when the mount answers
    #[arg(short = 'f', long = "foreground")]
    pub front: bool,
    /// Say how it is mounted
    #[arg(short, long)]
    pub verbose: bool,
    /// Tell the starting command on standard output when the mount answers, then leave the terminal
    #[arg(long, hide = true)]
    pub behind: bool,
    /// Image file or block device
    pub image: PathBuf,
    /// Directory to mount at
    pub dir: PathBuf,
}

const OPTIONS: &str = "\
Options of F2FS: ro, norecovery, fsync_mode=strict|posix|nobarrier, mode=adaptive|lfs, [no]discard,
  background_gc=on|off, [no]inline_data, [no]inline_dentry, [no]inline_xattr, [no]acl, [no]user_xattr,
  disable_ext_identify
Own options: cache=256M (memory for all that is cached; a server takes up to 128M besides), commit=5 (seconds until changes are durable without fsync),
  journal=off|auto|on|FILE (journal metadata behind the volume, see mkfs --journal, or in a file of its own),
  guard (until it is unmounted, and after a crash, Linux mounts a volume with a journal read-only),
  fsync_lookup=list|global|shadow (how fsync finds nodes: its own list, or all as the kernel does, to compare),
  checkpoint=auto|blocking|concurrent (whether changes wait while a checkpoint is written; auto: not with a journal),
  threads=N, direct (past the page cache), device=PATH (other devices of the volume, in order),
  shutdown (for crash tests: the ioctl FS_IOC_SHUTDOWN stops the volume as if the power failed),
  blk=auto|off (auto: root's mounts are of type fuseblk on kernels that report sync(2) only there),
  log=FILE (what the server has to say later; otherwise the system's log),
  transport=auto|classic|io_uring (how requests come from the kernel; auto takes io_uring where the kernel has it),
  writeback_contexts=auto|N, exclusive_streams=auto|N (how many files are written back side by side, and how many of
  them have a log of their own)
For the kernel: [no]dev, [no]suid, [no]exec, [a]sync, dirsync, [no]allow_other, auto_unmount
Root's mounts have dev, suid and allow_other set. What fstab may hold besides is accepted and ignored.
Access times are not kept: every mount is noatime, and atime, relatime and strictatime have no effect.";

pub fn run(args: &Args) -> Outcome {
    let root = rustix::process::geteuid().is_root();
    let settings = Settings::parse(&args.options, root)?;
    let plan = Plan::new(&args.image, &args.dir, settings)?;
    if args.front || args.behind {
        let readiness = if args.behind { Readiness::Behind } else { Readiness::InFront };
        serve(&plan, |started| readiness.announce(started, args.verbose, plan.settings.log.as_deref()))?;
        return Ok(ExitCode::SUCCESS);
    }
    warn_if_not_empty(&plan)?;
    spawn(&server_args(&plan, args), &plan.dir)
}

/// Files below the directory are hidden while something is mounted there; that is legal and seldom meant.
fn warn_if_not_empty(plan: &Plan) -> Result<()> {
    if std::fs::read_dir(&plan.dir)?.next().is_some() {
        eprintln!("segno: note: {} is not empty; its files are hidden while mounted", plan.dir.display());
    }
    Ok(())
}

fn server_args(plan: &Plan, given: &Args) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["mount".into(), "--behind".into()];
    if given.verbose {
        args.push("--verbose".into());
    }
    for option in &given.options {
        args.extend(["-o".into(), option.into()]);
    }
    args.extend(["--".into(), plan.image.clone().into(), plan.dir.clone().into()]);
    args
}
