//! Opening the file or directory at a path for reading or writing.
use crate::dir::Dir;
use crate::error::{Doing, Error, Result, errno, refuse};
use crate::file::File;
use crate::open_options::OpenOptions;
use crate::read_dir::ReadDir;
use crate::walk::Walk;
use std::io::{Read, Write};
use std::path::Path;

impl Dir {
    /// Opens a file for reading.
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_file_with(path, &OpenOptions::new().read(true))
    }

    /// Opens a file for reading and writing. It is created if missing and emptied if it exists.
    pub fn create_file(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_file_with(path, &OpenOptions::new().read(true).write(true).create(true).truncate(true))
    }

    /// Opens a file with options.
    pub fn open_file_with(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<File> {
        let path = path.as_ref();
        File::open(self, path, options).doing_at("open", path)
    }

    /// The whole content of a file.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let mut bytes = Vec::new();
        self.open_file(path)?.read_to_end(&mut bytes).doing_at("read", path)?;
        Ok(bytes)
    }

    /// The whole content of a file, which must be UTF-8.
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        let text = String::from_utf8(self.read(path)?);
        text.map_err(|_| Error::new("read", Some(path), refuse(errno::INVAL, "the content is not UTF-8")))
    }

    /// Writes a file of this content; an existing one is replaced. [`File::sync_all`] or
    /// [`Volume::sync`](crate::Volume::sync) make it durable.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        self.create_file(path)?.write_all(content.as_ref()).doing_at("write", path)
    }

    /// Lists a directory, without `.` and `..`, in the order of the volume.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        let path = path.as_ref();
        Ok(ReadDir::new(self.open_dir(path)?, path.to_owned()))
    }

    /// Lists everything below a directory, each directory before what it contains. Symbolic links are not followed.
    pub fn walk(&self, path: impl AsRef<Path>) -> Result<Walk> {
        Walk::new(self.read_dir(path)?)
    }
}
