//! Errors of opening a device or volume, with advice.
use crate::Contents;
use crate::in_use_by::InUseBy;
use crate::part_error::PartError;
use segno_format::{Corrupt, Unsupported};
use std::io;
use std::path::{Path, PathBuf};

/// A failure to open, create or join devices.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message states its case")]
pub enum DeviceError {
    #[error("{path} {by}")]
    InUse { path: String, by: InUseBy },
    #[error("{path} cannot be written ({source}); open it read-only or change its permissions")]
    ReadOnly { path: String, source: io::Error },
    #[error("{path} exists already; choose another name, or force it to be overwritten")]
    Exists { path: String },
    #[error(
        "{path} is an Android sparse image, which can only be read: `segno sparse unpack` makes an image of it that can be written"
    )]
    Sparse { path: String },
    #[error("{path} is neither a regular file nor a block device")]
    NotStorage { path: String },
    #[error("{path} is a block device; its size cannot be chosen")]
    FixedSize { path: String },
    #[error("{path} does not support direct I/O; open it buffered")]
    NoDirect { path: String },
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: String, source: io::Error },
    #[error(
        "{path} holds {blocks} blocks where the volume needs {needed}; it is truncated or not the right device"
    )]
    TooSmall { path: String, blocks: u64, needed: u64 },
    #[error("{}", no_superblock(path, contents, copies))]
    NoSuperblock { path: String, contents: Contents, copies: Box<[Corrupt; 2]> },
    #[error("{path} cannot be used: {why}")]
    Unsupported { path: String, why: Unsupported },
    #[error("{path} {why}")]
    Part { path: String, why: PartError },
    #[error("no device was named")]
    NoPath,
    #[error(
        "the volume on {path} has {expected} devices but {given} paths were given; name all of them, in order"
    )]
    MemberCount { path: String, expected: usize, given: usize },
    #[error("{}", not_named(path, recorded))]
    NotNamed { path: String, recorded: Vec<PathBuf> },
    #[error("{path} is named twice: each device of the volume is another one")]
    Twice { path: String },
    #[error(
        "device {index} of the volume: {source}; if it has moved, name the paths of all devices, in order"
    )]
    Member { index: usize, source: Box<DeviceError> },
}

impl DeviceError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { action, path: path.into().display().to_string(), source }
    }

    pub(crate) fn part(path: &Path, why: PartError) -> Self {
        Self::Part { path: path.display().to_string(), why }
    }

    /// The user that keeps the caller out, if that is why.
    #[must_use]
    pub fn in_use_by(&self) -> Option<&InUseBy> {
        match self {
            Self::InUse { by, .. } => Some(by),
            Self::Member { source, .. } => source.in_use_by(),
            _ => None,
        }
    }

    /// Whether the device has no F2FS volume, not even one with damaged superblocks: nothing can be checked or shown.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::NoSuperblock { contents, .. } if !contents.is_f2fs())
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::InUse { .. } => io::ErrorKind::ResourceBusy,
            Self::ReadOnly { source, .. } | Self::Io { source, .. } => source.kind(),
            Self::Exists { .. } => io::ErrorKind::AlreadyExists,
            Self::NotStorage { .. }
            | Self::FixedSize { .. }
            | Self::MemberCount { .. }
            | Self::NotNamed { .. }
            | Self::Twice { .. }
            | Self::NoPath => io::ErrorKind::InvalidInput,
            Self::Part { why: PartError::NoEntry { .. } | PartError::NoTable, .. } => io::ErrorKind::NotFound,
            Self::Part { .. } => io::ErrorKind::InvalidData,
            Self::Sparse { .. } => io::ErrorKind::ReadOnlyFilesystem,
            Self::NoDirect { .. } | Self::Unsupported { .. } => io::ErrorKind::Unsupported,
            Self::TooSmall { .. } | Self::NoSuperblock { .. } => io::ErrorKind::InvalidData,
            Self::Member { source, .. } => source.kind(),
        }
    }
}

/// Damage is described; anything else is named.
fn no_superblock(path: &str, contents: &Contents, [copy0, copy1]: &[Corrupt; 2]) -> String {
    if !contents.is_f2fs() {
        return contents.about(path);
    }
    format!(
        "{path} holds no usable superblock (copy 0: {copy0}; copy 1: {copy1}): `segno check {path}` reports details, \
         `segno rescue {path} DIR` copies its files"
    )
}

/// The recorded paths are data of the image: printed with escapes.
fn not_named(path: &str, recorded: &[PathBuf]) -> String {
    let list: Vec<String> = recorded.iter().map(|path| format!("{path:?}")).collect();
    format!(
        "the volume on {path} has {} devices, and those that its superblock records are opened only if the caller names them, in order: {}",
        recorded.len().saturating_add(1),
        list.join(", ")
    )
}

impl From<DeviceError> for io::Error {
    fn from(e: DeviceError) -> Self {
        Self::new(e.kind(), e)
    }
}
