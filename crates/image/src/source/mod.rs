//! The sources of a tree: a directory, a tar archive, or an F2FS image.
mod dir;
pub(crate) mod tar;
pub(crate) mod volume;

use crate::options::{BuildOptions, Owner};
use crate::tree::Tree;
use crate::{Error, Result};
use segno_device::{DeviceError, FileDevice, Location, require_superblock};
use segno_format::F2FS_MAGIC;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
pub use volume::OpenImage;

/// Bytes of the largest record of tar, to whose multiple an archive without files is filled with zeros.
const EMPTY_ARCHIVE_MAX: u64 = 512 << 10;
/// Where the magic number of F2FS is, from the start of a volume.
const MAGIC_AT: u64 = 1024;

/// The source of a build.
#[derive(Debug, Clone)]
pub enum Source {
    /// A directory and everything below it.
    Directory(PathBuf),
    /// A tar archive, plain or compressed with gzip.
    Tar(PathBuf),
    /// A tar archive on standard input.
    StandardInput,
    /// An F2FS volume: a raw or sparse image, or a device.
    Image(PathBuf),
}

impl Source {
    /// Tells from a path what the source is: `-` is a tar archive on standard input, a file with the magic
    /// number of F2FS or of a sparse image is an image, as is a part of a file, and any other file a tar
    /// archive.
    pub fn of_path(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::StandardInput);
        }
        let failed = |e| Error::host("read", path, e);
        if Location::of(path).is_part() {
            return Ok(Self::Image(path.to_owned()));
        }
        let meta = path.metadata().map_err(failed)?;
        if meta.is_dir() {
            return Ok(Self::Directory(path.to_owned()));
        }
        if meta.file_type().is_block_device() {
            return Ok(Self::Image(path.to_owned()));
        }
        if !meta.is_file() {
            return Ok(Self::Tar(path.to_owned()));
        }
        let file = File::open(path).map_err(failed)?;
        let magic = |at: u64, magic: u32| {
            let mut bytes = [0; 4];
            match file.read_exact_at(&mut bytes, at) {
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
                read => read.map(|()| u32::from_le_bytes(bytes) == magic),
            }
        };
        let is_image = magic(0, segno_sparse::MAGIC).map_err(failed)?
            || magic(MAGIC_AT, F2FS_MAGIC).map_err(failed)?
            || magic(MAGIC_AT + 4096, F2FS_MAGIC).map_err(failed)?;
        if is_image {
            return Ok(Self::Image(path.to_owned()));
        }
        refuse_others(path, meta.len())?;
        Ok(Self::Tar(path.to_owned()))
    }

    /// Opens the source; a directory is opened when it is read.
    pub fn open(&self, options: &BuildOptions) -> Result<OpenSource> {
        if options.journal.is_some() && !matches!(self, Self::Image(_)) {
            return Err(Error::Options("only an image as the source has a journal".into()));
        }
        if !options.devices.is_empty() && !matches!(self, Self::Image(_)) {
            return Err(Error::Options("only an image as the source has further devices".into()));
        }
        Ok(OpenSource(match self {
            Self::Directory(path) => Opened::Directory(path.clone()),
            Self::Tar(path) => Opened::Archive(tar::Spool::open(path)?),
            Self::StandardInput => {
                Opened::Archive(tar::Spool::of_stream("standard input", Box::new(io::stdin()))?)
            }
            Self::Image(path) => {
                Opened::Image(OpenImage::open(path, &options.devices, options.journal.as_deref())?)
            }
        }))
    }
}

/// A source that is open, for [`build`](crate::build).
pub struct OpenSource(Opened);

enum Opened {
    Directory(PathBuf),
    Archive(tar::Spool),
    Image(OpenImage),
}

impl OpenSource {
    pub(crate) fn read(self, options: &BuildOptions) -> Result<Tree> {
        let mut tree = match self.0 {
            Opened::Directory(path) => dir::scan(&path, options),
            Opened::Archive(spool) => tar::read(spool, options),
            Opened::Image(image) => {
                volume::read(image, &|path| options.exclude.iter().any(|e| e.covers(path)))
            }
        }?;
        if let Owner::All(uid, gid) = options.owner {
            tree.inodes.iter_mut().for_each(|i| (i.uid, i.gid) = (uid, gid));
        }
        Ok(tree)
    }
}

impl fmt::Debug for OpenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Opened::Directory(path) => f.debug_tuple("Directory").field(path).finish(),
            Opened::Archive(spool) => f.debug_tuple("Archive").field(&spool.name).finish(),
            Opened::Image(image) => image.fmt(f),
        }
    }
}

/// Refuses a file with other contents than an archive: most of them begin with zeros, which would be an
/// archive without files.
fn refuse_others(path: &Path, bytes: u64) -> Result<()> {
    match require_superblock(path, &FileDevice::observe(path)?) {
        Err(DeviceError::NoSuperblock { contents, .. })
            if contents.may_be_archive() && !(contents.is_blank() && bytes > EMPTY_ARCHIVE_MAX) =>
        {
            Ok(())
        }
        Err(e @ DeviceError::NoSuperblock { .. }) => Err(e.into()),
        _ => Ok(()),
    }
}
