//! Why a volume cannot be formatted.
use segno_device::Contents;
use segno_format::{Corrupt, Features};

/// Everything that can go wrong. The options are named as on the command line of `mkfs.f2fs`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MkfsError {
    /// The layout that was computed has no room for the checkpoint: a bug.
    #[error("{0}: this is a bug of the formatter, please report it with the options")]
    Pack(#[from] segno_layout::Unencodable),
    /// The device or the options do not suit a zoned volume.
    #[error("zoned volume: {why}")]
    Zoned {
        /// The rule that is broken.
        why: &'static str,
    },
    /// No gap behind the volume is possible.
    #[error("a journal behind the volume: {why}")]
    Gap {
        /// The rule that is broken.
        why: &'static str,
    },
    /// Features that are not ours to switch on.
    #[error("cannot format with feature {}: not supported here; leave it out", list(*features))]
    Unsupported {
        /// Those features.
        features: Features,
    },
    /// Features without the place where their fields live.
    #[error("feature {} needs extra_attr: add extra_attr to the feature list", list(*features))]
    NeedsExtraAttr {
        /// Those features.
        features: Features,
    },
    /// Casefold flags on a volume that does not fold case.
    #[error("casefold flags need the casefold feature: add casefold to the feature list")]
    FlagsWithoutCasefold,
    /// The label does not fit.
    #[error("the label has {units} UTF-16 units, at most 512 fit: shorten it")]
    LabelTooLong {
        /// Its length.
        units: usize,
    },
    /// A number outside its range.
    #[error("{name} is {value}, it must be {min} to {max}")]
    OutOfRange {
        /// What it counts.
        name: &'static str,
        /// The number.
        value: u64,
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// Not a sector size.
    #[error("sector size {bytes} is not 512, 1024, 2048 or 4096")]
    SectorSize {
        /// The size asked for.
        bytes: u32,
    },
    /// Not a percentage that leaves room.
    #[error("overprovision ratio {percent}% must be above 0 and below 100")]
    Overprovision {
        /// The ratio asked for.
        percent: f64,
    },
    /// A checkpoint of version 0 would not be newer than the empty second pack.
    #[error("the first checkpoint version must not be 0")]
    CheckpointVersion,
    /// The extension list is full.
    #[error("{count} file extensions in the cold and hot lists, at most 64 fit: drop some")]
    TooManyExtensions {
        /// How many there are.
        count: usize,
    },
    /// An extension that cannot be stored.
    #[error("file extension {text:?} must have 1 to 7 bytes")]
    Extension {
        /// The extension.
        text: String,
    },
    /// No device, or too many.
    #[error("{count} devices given, a volume has 1 to 8")]
    DeviceCount {
        /// How many were given.
        count: usize,
    },
    /// A path that the superblock cannot hold.
    #[error(
        "device path {path:?} must have 1 to 63 bytes to be recorded in a volume of several devices: use another path"
    )]
    Path {
        /// The path.
        path: String,
    },
    /// A device without room for a single zone.
    #[error(
        "device {number} has {blocks} blocks, too few for one zone of {zone_blocks} blocks behind the superblocks: \
         use a larger device, or fewer segments per section (-s) or sections per zone (-z)"
    )]
    DeviceTooSmall {
        /// Which device, counted from 0.
        number: usize,
        /// Its size.
        blocks: u64,
        /// Size of a zone.
        zone_blocks: u64,
    },
    /// More segments than the format can count.
    #[error("the devices have {segments} segments together, a volume ends before 16 TiB: use only a part")]
    TooLarge {
        /// How many there are.
        segments: u64,
    },
    /// Nothing would be left for files, or for cleaning.
    #[error(
        "too small: {zones} zones remain behind the metadata and more than {needed} are needed: \
         use a larger device, or fewer segments per section (-s) or sections per zone (-z)"
    )]
    TooFewZones {
        /// Zones of the main area.
        zones: u64,
        /// Zones taken by the logs.
        needed: u64,
    },
    /// The reserve takes the whole main area.
    #[error(
        "too small: cleaning needs {rsvd} free segments and the logs 6, the main area has {main}: \
         use a larger device, fewer segments per section (-s), or another overprovision ratio (-o)"
    )]
    NoUserSpace {
        /// Segments kept for the cleaner.
        rsvd: u64,
        /// Segments of the main area.
        main: u64,
    },
    /// A device that is in use. Nothing was written.
    #[error("{path} {contents}; {}overwrite it with -f", first(path, contents))]
    Occupied {
        /// The device.
        path: String,
        /// What is there.
        contents: Contents,
    },
    /// A device that refuses writes.
    #[error("{path} is read-only: open it for writing")]
    ReadOnly {
        /// The device.
        path: String,
    },
    /// The layout breaks a rule of the format that no other check names.
    #[error("these options do not give a valid volume: {0}")]
    Layout(#[from] Corrupt),
    /// A device refused.
    #[error("{path}: {doing} failed: {source}")]
    Io {
        /// The device.
        path: String,
        /// What was going on.
        doing: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The operating system gave no random numbers.
    #[error("no random numbers for the volume id: {0}; give one (-U)")]
    Random(std::io::Error),
}

fn list(features: Features) -> String {
    features.names().join(", ")
}

impl MkfsError {
    /// Whether another size of the device may help.
    #[must_use]
    pub fn is_about_size(&self) -> bool {
        matches!(self, Self::DeviceTooSmall { .. } | Self::NoUserSpace { .. } | Self::TooFewZones { .. })
    }
}

/// What comes before overwriting: remains of a volume still have files.
fn first(path: &str, contents: &Contents) -> String {
    if contents.is_wiped_volume() {
        format!("copy its files with `segno rescue {path} DIR`, then ")
    } else {
        String::new()
    }
}
