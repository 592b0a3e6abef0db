//! The storage of a volume: options of all commands for properties that the path of its image does not give,
//! and volumes without a mount.
use crate::external_journal::JournalOption;
use crate::path::reason;
use crate::{image, store, tag};
use anyhow::{Context, ensure};
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, FromArgMatches};
use segno::{Device, MountOptions, Volume};
use segno_device::{Location, OpenOptions};
use segno_format::size;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Which part of an image the volume is in. A name after # is equivalent: IMAGE#2, IMAGE#NAME.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PartOption {
    /// Byte of the image that the volume begins at
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub offset: Option<u64>,
    /// Length of the volume's part of the image [default: to the end of the partition or volume that begins there]
    #[arg(long, value_name = "BYTES", value_parser = size::parse, requires = "offset")]
    pub length: Option<u64>,
    /// Partition of the image: its number, name or UUID, or label or UUID of its volume
    #[arg(long, value_name = "NAME", conflicts_with = "offset")]
    pub partition: Option<String>,
}

impl PartOption {
    /// These, or else the others where something is missing.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            offset: self.offset.or(other.offset),
            length: self.length.or(other.length),
            partition: self.partition.clone().or(other.partition.clone()),
        }
    }

    fn is_given(&self) -> bool {
        self.offset.is_some() || self.partition.is_some()
    }

    /// The location that the options and the path of an image name together.
    pub fn of(&self, image: &Path) -> anyhow::Result<PathBuf> {
        ensure!(
            !store::is_url(image) || !self.is_given(),
            "{}: --offset and --partition are for images and devices",
            image.display()
        );
        let image = &tag::resolve(image)?;
        let given = Location::of(image);
        let named = match (self.offset, &self.partition) {
            (Some(offset), _) => Location::bytes(given.file(), offset, self.length),
            (None, Some(name)) => Location::entry(given.file(), name),
            (None, None) => return Ok(image.to_owned()),
        };
        ensure!(
            !given.is_part() || given == named,
            "{} names a part already: leave out --offset and --partition",
            image.display()
        );
        let path = named.path();
        // It would be taken for the file, or a name with a slash for a path.
        let means = Location::of(&path) == named;
        ensure!(
            means || !path.exists(),
            "{} is a file: rename it, or name bytes with --offset",
            path.display()
        );
        ensure!(means, "{}: that name cannot follow #: give the number of the partition", path.display());
        Ok(path)
    }
}

/// The options of each command on a volume.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct DeviceOption {
    #[command(flatten)]
    pub part: PartOption,
    /// A further device of a volume of several; repeat in order
    #[arg(long = "device", value_name = "PATH")]
    pub further: Vec<PathBuf>,
}

impl DeviceOption {
    /// All devices of the volume whose superblock is on this one.
    pub fn of(&self, image: &Path) -> anyhow::Result<Vec<PathBuf>> {
        self.after(&[image.to_owned()])
    }

    /// All devices of a volume of which some were named without the option.
    pub fn after(&self, named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
        let all = [named, &self.further].concat();
        let found =
            |(n, path): (usize, &PathBuf)| if n == 0 { self.part.of(path) } else { tag::resolve(path) };
        all.iter().enumerate().map(found).collect()
    }

    /// The device with the superblock, and the others.
    pub fn apart(&self, image: &Path) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
        let mut all = self.of(image)?.into_iter();
        Ok((all.next().unwrap_or_default(), all.collect()))
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

/// An image with these options, as they are given.
#[derive(clap::Args, Clone, Debug)]
struct GivenImage {
    #[command(flatten)]
    storage: StorageOptions,
    /// Image file or block device
    image: PathBuf,
}

/// An image with these options, which the path takes up that say where the volume is.
#[derive(Clone, Debug)]
pub struct ImageArgs {
    pub storage: StorageOptions,
    pub image: PathBuf,
}

impl FromArgMatches for ImageArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let GivenImage { mut storage, image } = GivenImage::from_arg_matches(matches)?;
        let part = std::mem::take(&mut storage.devices.part);
        // Without a part there is nothing to contradict; the device is looked for when it is opened.
        let image = if part.is_given() {
            part.of(&image).map_err(|e| clap::Error::raw(ErrorKind::ArgumentConflict, format!("{e}\n")))?
        } else {
            image
        };
        Ok(Self { storage, image })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for ImageArgs {
    fn augment_args(command: Command) -> Command {
        GivenImage::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        GivenImage::augment_args_for_update(command)
    }
}

impl ImageArgs {
    /// Opens the storage of a volume without a mount: for reading, where after a crash it is recovered in memory, or for changes, after
    /// which the caller closes the volume.
    pub fn open(&self, read_only: bool) -> anyhow::Result<Storage> {
        Storage::open(&self.image, &self.storage, read_only)
    }

    /// All devices of the volume.
    pub fn devices(&self) -> anyhow::Result<Vec<PathBuf>> {
        self.storage.devices.of(&self.image)
    }

    /// Device and inode numbers of the files that the volume is on, with its external journal.
    pub fn identities(&self) -> anyhow::Result<Vec<(u64, u64)>> {
        let all = self.devices()?.into_iter().chain(self.storage.journal.path()?);
        let found = all.filter_map(|path| Location::of(&path).file().metadata().ok());
        Ok(found.map(|found| (found.dev(), found.ino())).collect())
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
        let (paths, open_options) = (storage.devices.of(path)?, OpenOptions { read_only, direct: false });
        let device = Device::from(image::open(&paths, open_options)?);
        let mut options = MountOptions::new().background(false).read_only(read_only);
        if let Some((_, journal)) = storage.journal.open(&paths, open_options)? {
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
