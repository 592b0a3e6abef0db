//! A file that gets its name when it is complete, with messages.
use crate::image;
use anyhow::{Context, Result, bail, ensure};
use segno_device::{FileDevice, Hold, OpenOptions, Use, hold, share_storage};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The file; dropping it removes it.
#[derive(Debug)]
pub struct NewFile {
    new: segno_image::NewFile,
    path: PathBuf,
    force: bool,
    /// Keeps the file that is replaced out of use.
    _replaced: Option<Hold>,
}

impl NewFile {
    /// Makes the file with these permissions; with `force` an existing regular file of that name will be replaced, unless it is in use.
    pub fn create(path: &Path, force: bool, mode: u32) -> Result<Self> {
        let replaced = match path.symlink_metadata() {
            Ok(meta) if !meta.is_file() => {
                bail!("{} is not a regular file; write an image file and copy it there", path.display())
            }
            Ok(_) if !force => return exists(path),
            Ok(_) => Some(image::patiently(|| hold(path, Use::Write)).map_err(image::explain)?),
            Err(_) => None,
        };
        let new = segno_image::NewFile::create(path, mode);
        let new = new.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { new, path: path.to_owned(), force, _replaced: replaced })
    }

    /// Makes the file for a command that replaces none.
    pub fn create_new(path: &Path, mode: u32) -> Result<Self> {
        ensure!(path.symlink_metadata().is_err(), "{} exists already; name a new file", path.display());
        Self::create(path, false, mode)
    }

    /// The open file.
    pub fn file(&self) -> &File {
        self.new.file()
    }

    /// Its path until it has its name.
    pub fn temporary(&self) -> &Path {
        self.new.temporary()
    }

    /// The file as a device of this size.
    pub fn device(&self, bytes: u64) -> Result<FileDevice> {
        let sized = self.file().set_len(bytes);
        sized.with_context(|| format!("cannot set the size of {}", self.path.display()))?;
        self.new.unlock();
        FileDevice::open(self.temporary(), OpenOptions::default()).map_err(image::explain)
    }

    /// Makes the content durable and gives the file its name.
    pub fn finish(self) -> Result<()> {
        let Self { new, path, force, _replaced } = self;
        match new.finish(force) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => exists(&path),
            done => done.with_context(|| format!("cannot write {}", path.display())),
        }
    }
}

/// A file that is read is not replaced.
pub fn refuse_source(source: &Path, target: &Path) -> Result<()> {
    ensure!(!share_storage(source, target), "{} is the source, and would be overwritten", target.display());
    Ok(())
}

fn exists<T>(path: &Path) -> Result<T> {
    bail!("{} exists already; overwrite it with -f", path.display())
}
