//! `segno crashtest`, which `segno-lab` executes.
use super::external;
use crate::exit::Outcome;

/// Try the engine in memory: against a model, through power cuts, with a failing device (segno-lab)
///
/// Executes segno-lab, which no user of a volume needs. Nothing but memory is touched; without --quick it takes a quarter of an
/// hour. --seed decides what is drawn, --only KIND and --setup NAME choose a part, --case CASE repeats a finding, and --json prints
/// a document. `segno crashtest --help` describes them.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    #[command(flatten)]
    _unparsed: external::Unparsed,
}

pub fn run(_: &Args) -> Outcome {
    external::run()
}
