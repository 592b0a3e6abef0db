//! `segno journal`: the journal of an image that is not mounted.
mod discard;
pub mod found;
mod info;
mod replay;

use crate::exit::Outcome;
use std::path::PathBuf;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show where it is, how full, and what of it would be replayed
    Info(Args),
    /// Bring the volume to what was promised, as the next mount would
    Replay(Args),
    /// Erase it; the volume stays as its last checkpoint says
    Discard(DiscardArgs),
}

#[derive(clap::Args)]
pub struct Args {
    /// Image file or block device
    image: PathBuf,
    /// The journal's own file or device, if it is not behind the volume
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct DiscardArgs {
    #[command(flatten)]
    of: Args,
    /// Also when it holds committed changes that the volume has not
    #[arg(short, long)]
    force: bool,
}

pub fn run(command: &Command) -> Outcome {
    match command {
        Command::Info(args) => info::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Discard(args) => discard::run(args),
    }
}
