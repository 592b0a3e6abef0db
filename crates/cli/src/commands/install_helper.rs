//! `segno install-helper`: links by which other programs find Segno.
use anyhow::{Context, Result, bail, ensure};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The names under which the program takes the options of f2fs-tools.
pub const NAMES: &[&str] = &[
    "mkfs.f2fs",
    "make_f2fs",
    "fsck.f2fs",
    "fsck_f2fs",
    "sload.f2fs",
    "sload_f2fs",
    "dump.f2fs",
    "dump_f2fs",
    "f2fslabel",
    "mount.f2fs",
];

/// Link this program by the names of f2fs-tools in a directory
///
/// By these names it takes the options of mkfs.f2fs, make_f2fs, fsck.f2fs, sload.f2fs, dump.f2fs, f2fslabel
/// and mount.f2fs. In a directory before the others in PATH, tools that call them use Segno; mount(8) looks
/// for mount.f2fs in /sbin alone. Mounts of the kernel are left to the original programs. The Debian package
/// segnofs-f2fs-compat does the same for the whole machine, and keeps the originals.
#[derive(clap::Args)]
pub struct Args {
    /// Remove the links instead
    #[arg(long)]
    remove: bool,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    /// Directory of the links
    dir: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    ensure!(args.dir.is_dir(), "{} is not a directory", args.dir.display());
    let links: Vec<PathBuf> = NAMES.iter().map(|name| args.dir.join(name)).collect();
    for link in &links {
        let is_ours = link.canonicalize().is_ok_and(|to| to == program);
        if link.symlink_metadata().is_ok() && !is_ours {
            bail!("{} exists already and is not this program: name another directory", link.display());
        }
    }
    for link in &links {
        change(args, &program, link)?;
    }
    Ok(())
}

fn change(args: &Args, program: &Path, link: &Path) -> Result<()> {
    let exists = link.symlink_metadata().is_ok();
    if args.remove && exists {
        std::fs::remove_file(link).with_context(|| format!("cannot remove {}", link.display()))?;
    } else if !args.remove && !exists {
        symlink(program, link).with_context(|| format!("cannot make {}", link.display()))?;
    } else {
        return Ok(());
    }
    if !args.quiet {
        println!("{}", link.display());
    }
    Ok(())
}
