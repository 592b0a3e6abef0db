//! Why a volume cannot be formatted.
use segno_device::Contents;
use segno_format::Corrupt;

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
    /// An option that no volume can have, or not with the others.
    #[error("{0}")]
    Options(String),
    /// No device, or too many.
    #[error("{count} devices given, a volume has 1 to 8")]
    DeviceCount {
        /// How many were given.
        count: usize,
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
        /// Its contents.
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
        /// The operation that failed.
        doing: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The operating system gave no random numbers.
    #[error("no random numbers for the volume id: {0}; give one (-U)")]
    Random(std::io::Error),
}

impl MkfsError {
    /// Whether another size of the device may help.
    #[must_use]
    pub fn is_about_size(&self) -> bool {
        matches!(self, Self::DeviceTooSmall { .. } | Self::NoUserSpace { .. } | Self::TooFewZones { .. })
    }
}

/// Advice before overwriting: the remains of a wiped volume still have files.
fn first(path: &str, contents: &Contents) -> String {
    if contents.is_wiped_volume() {
        format!("copy its files with `segno rescue {path} DIR`, then ")
    } else {
        String::new()
    }
}
