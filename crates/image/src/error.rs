//! Why an image could not be built or read.
use std::io;
use std::path::{Path, PathBuf};

/// The result of a build or an extraction.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the source, of the options, of a file that they name, or of the image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message states its case")]
pub enum Error {
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Host { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} changed while it was read", path = path.display())]
    Changed { path: PathBuf },
    #[error("{path} has an unknown type of file", path = path.display())]
    UnknownType { path: PathBuf },
    #[error("cannot use the volume on {path}: {source}", path = path.display())]
    Mount { path: PathBuf, source: segno_engine::Error },
    #[error("cannot read the source volume: {0}")]
    Source(segno_engine::Error),
    #[error("cannot store {path}: {why}", path = path.display())]
    Entry { path: PathBuf, why: String },
    #[error("extended attribute {name} of {path} cannot be stored: {why}", path = path.display())]
    Xattr { name: String, path: PathBuf, why: String },
    #[error("{path}:{line}: {why}", path = path.display())]
    Line { path: PathBuf, line: usize, why: String },
    #[error("{archive}, entry {number} at byte {at}: {why}", archive = archive.display())]
    Archive { archive: PathBuf, number: u64, at: u64, why: String },
    #[error("{what} of {count} paths is missing in {file}: {list}", list = list.join(", "))]
    Missing { what: &'static str, count: usize, file: String, list: Vec<String> },
    #[error("{0}")]
    Options(String),
    #[error("cannot format the image: {0}")]
    Format(#[from] segno_mkfs::MkfsError),
    #[error("cannot open the image: {0}")]
    Device(#[from] segno_device::DeviceError),
    #[error("cannot write the sparse image: {0}")]
    Sparse(#[from] segno_sparse::SparseError),
    #[error(
        "the tree does not fit in {given} bytes: {missing} bytes are missing, {enough} bytes (--size {enough}) suffice"
    )]
    TooSmall { given: u64, missing: u64, enough: u64 },
    #[error("the tree fits in no volume of up to 16 TiB")]
    TooLarge,
    #[error("{0}: this is a bug")]
    Invariant(&'static str),
}

impl Error {
    pub(crate) fn host(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Host { action, path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn entry(path: PathBuf, why: impl Into<String>) -> Self {
        Self::Entry { path, why: why.into() }
    }
}
