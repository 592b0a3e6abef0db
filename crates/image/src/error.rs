//! Why an image could not be built or read.
use segno_format::text;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The result of a build or an extraction.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the source, of the options, of a file that they name, or of the image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message states its case")]
pub enum Error {
    #[error("cannot {action} {path}: {source}", path = shown(path))]
    Host { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} changed while it was read", path = shown(path))]
    Changed { path: PathBuf },
    #[error("{path} has an unknown type of file", path = shown(path))]
    UnknownType { path: PathBuf },
    #[error("cannot use the volume on {path}: {source}", path = path.display())]
    Mount { path: PathBuf, source: segno_engine::Error },
    #[error("cannot read the source volume: {0}")]
    Source(segno_engine::Error),
    #[error("cannot read /{path} of the source volume: {source}")]
    SourcePath { path: String, source: segno_engine::Error },
    #[error("cannot store {path}: {why}", path = shown(path))]
    Entry { path: PathBuf, why: String },
    #[error("no file can have the name {name}: {why}")]
    Name { name: String, why: &'static str },
    #[error("extended attribute {name} of {path} cannot be stored: {why}", path = shown(path))]
    Xattr { name: String, path: PathBuf, why: String },
    #[error("{path}:{line}: {why}", path = shown(path))]
    Line { path: PathBuf, line: usize, why: String },
    #[error("{archive}, entry {number} at byte {at}: {why}", archive = shown(archive))]
    Archive { archive: PathBuf, number: u64, at: u64, why: String },
    #[error("{what} of {count} paths is missing in {file}: {list}{hint}", list = list.join(", "))]
    Missing { what: &'static str, count: usize, file: String, list: Vec<String>, hint: &'static str },
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

fn shown(path: &Path) -> String {
    text::name(path.as_os_str().as_bytes())
}

impl Error {
    pub(crate) fn host(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Host { action, path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn entry(path: PathBuf, why: impl Into<String>) -> Self {
        Self::Entry { path, why: why.into() }
    }
}
