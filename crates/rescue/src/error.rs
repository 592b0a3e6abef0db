//! Errors that end a rescue. Damage does not: it is recorded with its file.
use std::io;
use std::path::PathBuf;

/// A reason to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message states its case")]
pub enum RescueError {
    #[error(
        "the source has {blocks} blocks of 4 KiB, more than an F2FS volume can have (16 TiB); copy the part with the volume to a file, or name \
         its partition"
    )]
    TooLarge { blocks: u64 },
    #[error("no node of an F2FS volume was found")]
    NothingFound,
    #[error(
        "the volume has no {0} that could be read, and deleted files cannot be told from others without it"
    )]
    NoTable(&'static str),
    #[error("{action} {path}: {source}", path = path.display())]
    Target { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} has no space left; what was copied so far is complete, and --resume goes on elsewhere or with more space", path = path.display())]
    NoSpace { path: PathBuf },
    #[error("{path} is not empty; name a new directory, or go on with --resume", path = path.display())]
    NotEmpty { path: PathBuf },
    #[error("{path}: {why} in line {line} of the map", path = path.display())]
    BadMapfile { path: PathBuf, line: usize, why: &'static str },
    #[error("{path} {why}; delete it, or name another file with --scan", path = path.display())]
    BadScan { path: PathBuf, why: &'static str },
    #[error("{0:?} is not a pattern: {1}")]
    Pattern(String, glob::PatternError),
    #[error("interrupted")]
    Interrupted,
}

impl RescueError {
    /// A failure of the target. Lack of space and interruption have separate variants.
    pub fn target(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.into(), source.into());
        match source.kind() {
            io::ErrorKind::Interrupted => Self::Interrupted,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path },
            _ => Self::Target { action, path, source },
        }
    }
}
