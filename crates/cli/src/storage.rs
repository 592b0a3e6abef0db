//! The storage of a volume that the path of its image does not name: options of all commands on volumes.
use crate::external_journal::JournalOption;
use std::path::{Path, PathBuf};

/// The option of each command on a volume.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct DeviceOption {
    /// A further device of a volume of several; repeat in order
    #[arg(long = "device", value_name = "PATH")]
    pub further: Vec<PathBuf>,
}

impl DeviceOption {
    /// All devices of the volume whose superblock is on this one.
    pub fn of(&self, image: &Path) -> Vec<PathBuf> {
        self.after(&[image.to_owned()])
    }

    /// All devices of a volume of which some were named without the option.
    pub fn after(&self, named: &[PathBuf]) -> Vec<PathBuf> {
        [named, &self.further].concat()
    }
}

/// The options of each command that reads or changes the files of a volume.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct StorageOptions {
    #[command(flatten)]
    pub devices: DeviceOption,
    #[command(flatten)]
    pub journal: JournalOption,
}
