//! Options of all experiments.
use crate::budget::Budget;
use crate::place::Place;
use anyhow::Result;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit of `--quick`, with a margin for a busy machine.
const QUICK: Duration = Duration::from_secs(40);

/// Options of all experiments.
#[derive(Clone, Debug, clap::Args)]
pub struct Common {
    /// Smaller sizes, and done within a minute
    #[arg(long)]
    pub quick: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Write a folder with the report, the page and everything needed to repeat the run
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Image or block device to work on; its contents are lost [default: an image in $TMPDIR or /var/tmp]
    #[arg(long, value_name = "PATH")]
    pub image: Option<PathBuf>,
    /// Overwrite a file system on that image or device
    #[arg(long, requires = "image")]
    pub force: bool,
    /// Start of all random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How often each contestant runs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
}

impl Common {
    pub fn budget(&self) -> Budget {
        if self.quick { Budget::of(QUICK) } else { Budget::unlimited() }
    }

    pub fn rounds(&self) -> usize {
        self.rounds.into()
    }

    /// The place of volumes, with an image of this size unless a device is named.
    pub fn place(&self, bytes: u64) -> Result<Place> {
        Place::new(self.image.as_deref(), self.force, bytes)
    }

    /// Duration of the raw device measurement.
    pub fn raw_time(&self) -> Duration {
        Duration::from_secs(if self.quick { 2 } else { 8 })
    }
}
