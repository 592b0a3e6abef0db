//! Why an image could not be built.
use std::io;
use std::path::{Path, PathBuf};

/// The result of a build.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the source, of the options or of the image file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message states its case")]
pub enum Error {
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Host { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} changed while it was read", path = path.display())]
    Changed { path: PathBuf },
    #[error("{path} is not a directory", path = path.display())]
    NotDirectory { path: PathBuf },
    #[error("{path} has an unknown type of file", path = path.display())]
    UnknownType { path: PathBuf },
    #[error("extended attribute {name} of {path} cannot be stored: {source}", path = path.display())]
    Xattr { name: String, path: PathBuf, source: segno_engine::Error },
    #[error("cannot write {path} to the image: {source}", path = path.display())]
    Entry { path: PathBuf, source: segno_engine::Error },
    #[error("cannot write the volume: {0}")]
    Volume(segno_engine::Error),
    #[error("cannot format the image: {0}")]
    Format(#[from] segno_mkfs::MkfsError),
    #[error("cannot use the image file: {0}")]
    Device(#[from] segno_device::DeviceError),
    #[error(
        "the tree does not fit in {given} bytes: {missing} bytes are missing, {enough} bytes (--size {enough}) suffice"
    )]
    TooSmall { given: u64, missing: u64, enough: u64 },
    #[error("the tree fits in no volume of up to 16 TiB")]
    TooLarge,
    #[error("the read-only layout (-O ro) cannot be built yet")]
    ReadOnlyLayout,
}

impl Error {
    pub(crate) fn host(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Host { action, path: path.to_owned(), source: source.into() }
    }
}
