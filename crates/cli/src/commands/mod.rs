//! One file a subcommand.
mod bench;
mod cat;
mod check;
mod crashtest;
mod ctl;
mod extents;
mod get;
mod info;
mod journal;
mod ls;
mod mkfs;
pub mod mount;
mod put;
mod stat;
mod stats;
mod sync;
mod umount;

use crate::exit::Outcome;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    /// Format an image or block device
    Mkfs(mkfs::Args),
    /// Mount an image
    Mount(mount::Args),
    /// Unmount; returns when the image is clean and closed
    Umount(umount::Args),
    /// Check an image that is not mounted; never writes
    Check(check::Args),
    Crashtest(crashtest::Args),
    /// Show superblock, checkpoint and usage of an image
    Info(info::Args),
    /// Show, replay or discard the journal of an image
    #[command(subcommand)]
    Journal(journal::Command),
    /// List a directory of an image
    Ls(ls::Args),
    /// Print files of an image
    Cat(cat::Args),
    /// Show the attributes of a file of an image
    Stat(stat::Args),
    /// Copy files out of an image
    Get(get::Args),
    /// Copy files into an image
    Put(put::Args),
    /// Show where files are on the volume
    Extents(extents::Args),
    /// Show the counters of a mount
    Stats(stats::Args),
    /// Make everything durable that was done to a mount before; any user may
    Sync(sync::Args),
    /// Show or change settings of a mount
    Ctl(ctl::Args),
    /// Run an experiment and report its figures
    Bench(segno_bench::Args),
}

impl Command {
    pub fn run(self) -> Outcome {
        match self {
            Self::Mkfs(args) => mkfs::run(&args),
            Self::Mount(args) => mount::run(&args),
            Self::Umount(args) => umount::run(&args),
            Self::Check(args) => check::run(&args),
            Self::Crashtest(args) => crashtest::run(&args),
            Self::Info(args) => info::run(&args),
            Self::Journal(command) => journal::run(&command),
            Self::Ls(args) => ls::run(&args),
            Self::Cat(args) => cat::run(&args),
            Self::Stat(args) => stat::run(&args),
            Self::Get(args) => get::run(&args),
            Self::Put(args) => put::run(&args),
            Self::Extents(args) => extents::run(&args),
            Self::Stats(args) => stats::run(&args),
            Self::Sync(args) => sync::run(&args),
            Self::Ctl(args) => ctl::run(&args),
            Self::Bench(args) => bench::run(&args),
        }
    }
}
