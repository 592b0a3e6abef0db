//! A file that gets its name when it is complete.
use crate::image;
use anyhow::{Context, Result, bail};
use segno_device::{Hold, Use, hold};
use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// A file under a temporary name in the directory of the final one. Dropping it removes it.
#[derive(Debug)]
pub struct NewFile {
    temporary: NamedTempFile,
    path: PathBuf,
    force: bool,
    /// Keeps the file that is replaced out of use.
    _replaced: Option<Hold>,
}

impl NewFile {
    /// Makes the file; with `force` an existing regular file of that name will be replaced, unless it is in use.
    pub fn create(path: &Path, force: bool) -> Result<Self> {
        let replaced = match path.symlink_metadata() {
            Ok(meta) if !meta.is_file() => {
                bail!("{} is not a regular file; write an image file and copy it there", path.display())
            }
            Ok(_) if !force => return exists(path),
            Ok(_) => Some(image::patiently(|| hold(path, Use::Write)).map_err(image::explain)?),
            Err(_) => None,
        };
        let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The umask takes its share, as of any new file.
        let permissions = Permissions::from_mode(0o666);
        let temporary = Builder::new().prefix(".segno-").permissions(permissions).tempfile_in(dir);
        let temporary = temporary.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { temporary, path: path.to_owned(), force, _replaced: replaced })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Its path until it has its name.
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Makes the content durable and gives the file its name.
    pub fn finish(self) -> Result<()> {
        let Self { temporary, path, force, _replaced } = self;
        temporary.as_file().sync_all().with_context(|| format!("cannot write {}", path.display()))?;
        let named = if force { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
        match named {
            Ok(_) => Ok(()),
            Err(e) if e.error.kind() == ErrorKind::AlreadyExists => exists(&path),
            Err(e) => Err(e.error).with_context(|| format!("cannot name {}", path.display())),
        }
    }
}

fn exists<T>(path: &Path) -> Result<T> {
    bail!("{} exists already; overwrite it with -f", path.display())
}
