//! A file that gets its name when it is complete.
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// A file under a temporary name in the directory of the final one. Dropping it removes it.
#[derive(Debug)]
pub struct NewFile {
    temporary: NamedTempFile,
    path: PathBuf,
    force: bool,
}

/// Why a file was not made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message states its case")]
pub enum NewFileError {
    #[error("{} exists already; overwrite it with -f", path.display())]
    Exists { path: PathBuf },
    #[error("{} is not a regular file; write an image file and copy it there", path.display())]
    NotRegular { path: PathBuf },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl NewFile {
    /// Makes the file; with `force` an existing regular file of that name will be replaced.
    pub fn create(path: &Path, force: bool) -> Result<Self, NewFileError> {
        let owned = || path.to_owned();
        match path.symlink_metadata() {
            Ok(meta) if !meta.is_file() => return Err(NewFileError::NotRegular { path: owned() }),
            Ok(_) if !force => return Err(NewFileError::Exists { path: owned() }),
            _ => {}
        }
        let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The umask takes its share, as of any new file.
        let permissions = Permissions::from_mode(0o666);
        let temporary = Builder::new().prefix(".segno-").permissions(permissions).tempfile_in(dir);
        let temporary =
            temporary.map_err(|source| NewFileError::Io { action: "create", path: owned(), source })?;
        Ok(Self { temporary, path: owned(), force })
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Makes the content durable and gives the file its name.
    pub fn finish(self) -> Result<(), NewFileError> {
        let Self { temporary, path, force } = self;
        let failed = |action, source| NewFileError::Io { action, path: path.clone(), source };
        temporary.as_file().sync_all().map_err(|e| failed("write", e))?;
        let named = if force { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
        match named {
            Ok(_) => Ok(()),
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Err(NewFileError::Exists { path }),
            Err(e) => Err(failed("name", e.error)),
        }
    }
}
