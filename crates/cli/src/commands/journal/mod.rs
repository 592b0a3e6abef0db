//! `segno journal`: the journal of an image that is not mounted.
mod create;
mod discard;
pub mod found;
mod info;
mod remove;
mod replay;
mod resize;
pub mod room;

use crate::storage::ImageArgs;
use anyhow::Result;
use segno_format::size;

/// Show, make, resize, remove, replay or discard the journal of an image
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show place, usage, and the changes to replay
    Info(Target),
    /// Make an empty one after the end of the volume, or in a file
    ///
    /// An image file without room for it becomes longer. A partition or device needs a gap after the end of the volume.
    Create(CreateArgs),
    /// Make one that has nothing to replay larger or smaller, as `create` makes it
    Resize(ResizeArgs),
    /// Remove one that has nothing to replay; an image file becomes as short as its volume
    Remove(Target),
    /// Apply committed changes to the volume, as the next mount would
    Replay(ReplayArgs),
    /// Erase it; the volume stays at its last checkpoint
    Discard(DiscardArgs),
}

#[derive(clap::Args)]
pub struct Target {
    #[command(flatten)]
    of: ImageArgs,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    target: Target,
    /// Where the journal is damaged, apply what is before the damage, and give up the rest
    #[arg(short, long)]
    force: bool,
}

#[derive(clap::Args)]
pub struct DiscardArgs {
    #[command(flatten)]
    target: Target,
    /// Even if it holds committed changes that the volume lacks
    #[arg(short, long)]
    force: bool,
}

#[derive(clap::Args)]
pub struct CreateArgs {
    #[command(flatten)]
    target: Target,
    /// Size of the journal [default: the gap that is there, or 1/64 of the volume, 16 to 256 MiB]
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Overwrite other data in its place, but no journal in use
    #[arg(short, long)]
    force: bool,
}

#[derive(clap::Args)]
pub struct ResizeArgs {
    #[command(flatten)]
    target: Target,
    /// Size of the journal
    #[arg(long, value_parser = size::parse)]
    size: u64,
}

pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Info(args) => info::run(args),
        Command::Create(args) => create::run(args),
        Command::Resize(args) => resize::run(args),
        Command::Remove(args) => remove::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Discard(args) => discard::run(args),
    }
}
