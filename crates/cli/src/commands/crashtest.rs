//! `segno crashtest`, which `segno-lab` executes.
use super::external;
use crate::exit::Outcome;

/// Try the engine in memory: against a model, through power cuts, with a failing device (segno-lab)
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    #[command(flatten)]
    _unparsed: external::Unparsed,
}

pub fn run(_: &Args) -> Outcome {
    external::run()
}
