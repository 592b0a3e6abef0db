//! The source of a regular file's content.
use crate::{Error, Result};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use segno_engine::Volume;
use segno_format::Ino;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The content of a file: bytes that are read when they are needed.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) size: u64,
    pub(crate) place: Place,
}

#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A file of the host.
    Host(Arc<HostFile>),
    /// Parts of a file that holds many, such as an archive.
    Archive(Arc<Pieces>),
    /// A file of a volume.
    Volume(Arc<OpenVolume>, Ino),
}

/// A file of the host, with the metadata that identified it when its name was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostFile {
    pub(crate) path: PathBuf,
    dev: u64,
    ino: u64,
    size: u64,
    modified: (i64, i64),
}

/// Ascending extents of a file in an archive; the rest of it is zeros.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) archive: Arc<File>,
    pub(crate) name: PathBuf,
    pub(crate) extents: Vec<ArchiveExtent>,
}

/// Bytes of a file that are in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveExtent {
    /// First byte in the file.
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// First byte in the archive.
    pub(crate) at: u64,
}

/// A volume that files are read from.
pub(crate) struct OpenVolume(pub(crate) Arc<Volume>);

impl std::fmt::Debug for OpenVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenVolume").finish_non_exhaustive()
    }
}

/// Content that is being read.
pub(crate) struct Reading {
    content: Content,
    file: Option<File>,
}

impl HostFile {
    pub(crate) fn of(path: PathBuf, meta: &Metadata) -> Self {
        let modified = (meta.mtime(), meta.mtime_nsec());
        Self { path, dev: meta.dev(), ino: meta.ino(), size: meta.len(), modified }
    }

    fn changed(&self) -> Error {
        Error::Changed { path: self.path.clone() }
    }

    fn verify(&self, file: &File) -> Result<()> {
        let meta = file.metadata().map_err(|e| Error::host("read", &self.path, e))?;
        if Self::of(self.path.clone(), &meta) == *self { Ok(()) } else { Err(self.changed()) }
    }
}

impl Content {
    pub(crate) fn open(&self) -> Result<Reading> {
        let file = match &self.place {
            Place::Host(host) => {
                // The file itself, not what may have taken its place since.
                let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
                let file = File::options().read(true).custom_flags(flags).open(&host.path);
                let file = file.map_err(|e| Error::host("open", &host.path, e))?;
                host.verify(&file)?;
                Some(file)
            }
            Place::Archive(_) | Place::Volume(..) => None,
        };
        Ok(Reading { content: self.clone(), file })
    }
}

impl Reading {
    pub(crate) fn size(&self) -> u64 {
        self.content.size
    }

    /// The first byte at or after `offset` that may hold data.
    pub(crate) fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        let size = self.content.size;
        if offset >= size {
            return Ok(None);
        }
        let found = match (&self.content.place, &self.file) {
            (Place::Host(host), Some(file)) => {
                next_data(file, offset).map_err(|e| Error::host("read", &host.path, e))?
            }
            (Place::Archive(pieces), _) => pieces.behind(offset).first().map(|p| p.start.max(offset)),
            (Place::Volume(volume, ino), _) => match volume.0.seek_data(*ino, offset) {
                Ok(at) => Some(at),
                Err(e) if e.errno() == Errno::NXIO.raw_os_error() => None,
                Err(e) => return Err(Error::Source(e)),
            },
            (Place::Host(_), None) => Some(offset),
        };
        Ok(found.filter(|at| *at < size))
    }

    /// The first byte at or after `offset` that may be in a hole; the end of the file counts as one.
    pub(crate) fn next_hole(&self, offset: u64) -> Result<u64> {
        let size = self.content.size;
        let found = match &self.content.place {
            Place::Volume(volume, ino) if offset < size => {
                volume.0.seek_hole(*ino, offset).map_err(Error::Source)?
            }
            _ => size,
        };
        Ok(found.min(size))
    }

    /// Reads bytes of the file, and zeros after its end.
    pub(crate) fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let inside = usize::try_from(self.content.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (bytes, behind) = into.split_at_mut(inside.min(into.len()));
        behind.fill(0);
        match (&self.content.place, &self.file) {
            (Place::Host(host), Some(file)) => {
                file.read_exact_at(bytes, offset).map_err(|e| match e.kind() {
                    io::ErrorKind::UnexpectedEof => host.changed(),
                    _ => Error::host("read", &host.path, e),
                })
            }
            (Place::Archive(pieces), _) => pieces.read(bytes, offset),
            (Place::Volume(volume, ino), _) => read_volume(&volume.0, *ino, bytes, offset),
            (Place::Host(_), None) => Err(Error::Invariant("a file is open while it is read")),
        }
    }

    /// Whether the file is still what it was.
    pub(crate) fn finish(&self) -> Result<()> {
        match (&self.content.place, &self.file) {
            (Place::Host(host), Some(file)) => host.verify(file),
            _ => Ok(()),
        }
    }
}

fn read_volume(volume: &Volume, ino: Ino, into: &mut [u8], mut offset: u64) -> Result<()> {
    let mut rest = into;
    while !rest.is_empty() {
        let n = volume.read(ino, offset, rest).map_err(Error::Source)?;
        if n == 0 {
            return Err(Error::Invariant("a file of the source volume ends before its size"));
        }
        (rest, offset) = (rest.split_at_mut(n).1, offset + n as u64);
    }
    Ok(())
}

impl Pieces {
    /// The extents that end after an offset.
    fn behind(&self, offset: u64) -> &[ArchiveExtent] {
        let first = self.extents.partition_point(|p| p.start + p.len <= offset);
        self.extents.get(first..).unwrap_or_default()
    }

    fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        into.fill(0);
        let end = offset + into.len() as u64;
        for extent in self.behind(offset).iter().take_while(|p| p.start < end) {
            let (from, to) = (extent.start.max(offset), (extent.start + extent.len).min(end));
            // Both are within the buffer.
            let bytes = into.get_mut((from - offset) as usize..(to - offset) as usize).unwrap_or_default();
            let read = self.archive.read_exact_at(bytes, extent.at + (from - extent.start));
            read.map_err(|e| Error::host("read", Path::new(&self.name), e))?;
        }
        Ok(())
    }
}

/// The first byte at or after `offset` that is not in a hole of the source.
fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        // The file system does not report holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset)),
        Err(e) => Err(e.into()),
    }
}
