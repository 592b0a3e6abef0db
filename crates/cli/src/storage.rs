//! The storage of a volume: options of all commands for what the path of its image does not name, and volumes without a mount.
use crate::external_journal::JournalOption;
use crate::image;
use crate::path::reason;
use anyhow::Context;
use segno::{Device, MountOptions, Volume};
use segno_device::OpenOptions;
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

/// An image with these options.
#[derive(clap::Args, Clone, Debug)]
pub struct ImageArgs {
    #[command(flatten)]
    pub storage: StorageOptions,
    /// Image file or block device
    pub image: PathBuf,
}

impl ImageArgs {
    /// Opens the volume without a mount: for reading, where after a crash it is recovered in memory, or for changes, after which
    /// the caller closes it.
    pub fn volume(&self, read_only: bool) -> anyhow::Result<Volume> {
        Storage::open(&self.image, &self.storage, read_only)?.volume()
    }

    /// All devices of the volume.
    pub fn devices(&self) -> Vec<PathBuf> {
        self.storage.devices.of(&self.image)
    }
}

/// The storage of a volume, open.
pub struct Storage {
    path: PathBuf,
    device: Device,
    options: MountOptions,
}

impl Storage {
    pub fn open(path: &Path, storage: &StorageOptions, read_only: bool) -> anyhow::Result<Self> {
        let (paths, open_options) = (storage.devices.of(path), OpenOptions { read_only, direct: false });
        let device = Device::from(image::open(&paths, open_options)?);
        let mut options = MountOptions::new().background(false).read_only(read_only);
        if let Some(journal) = storage.journal.open(&paths, open_options)? {
            options = options.journal(&Device::from(journal));
        }
        let options = options.on_notice(|notice| eprintln!("segno: {notice}"));
        Ok(Self { path: path.to_owned(), device, options })
    }

    /// The volume, without a mount.
    pub fn volume(self) -> anyhow::Result<Volume> {
        reason(Volume::open_with(&self.device, &self.options)).with_context(|| image::cannot_read(&self.path))
    }
}
