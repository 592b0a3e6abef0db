//! `segno bench`, which `segno-lab` executes.
use super::external;
use crate::exit::Outcome;

/// Run an experiment and report its figures (segno-lab)
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    #[command(flatten)]
    _unparsed: external::Unparsed,
}

pub fn run(_: &Args) -> Outcome {
    external::run()
}
