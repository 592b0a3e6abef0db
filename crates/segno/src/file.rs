//! Open files.
use crate::dir::Dir;
use crate::error::{Cause, Doing, Error, Result, errno, refuse};
use crate::metadata::{Metadata, SetMetadata};
use crate::mount::Mount;
use crate::open_options::OpenOptions;
use crate::resolve::{Last, Place, parent, place};
use segno_engine::{Attr, FallocMode, SetAttr, Volume};
use segno_format::Ino;
use segno_format::dentry::FileType;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often a file is looked up again that others create and remove meanwhile.
const CREATE_TRIES: usize = 8;

/// An open regular file, with a position for [`Read`], [`Write`] and [`Seek`]. It stays readable and writable until it is
/// dropped, also when it is renamed or removed.
///
/// Written data is durable after [`sync_all`](Self::sync_all), [`Volume::sync`](crate::Volume::sync) or
/// [`Volume::close`](crate::Volume::close).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = segno::Device::in_memory(64 << 20);
/// # segno::format(&device, &segno::FormatOptions::default())?;
/// # let volume = segno::Volume::open(&device)?;
/// use std::io::{Read, Seek, Write};
/// let mut file = volume.create_file("/file")?;
/// file.write_all(b"sequential")?;
/// file.write_at(b"anywhere", 1 << 20)?;
/// file.rewind()?;
/// let mut start = [0; 10];
/// file.read_exact(&mut start)?;
/// assert_eq!((&start, file.metadata()?.len()), (b"sequential", (1 << 20) + 8));
/// file.sync_all()?;
/// # Ok(())
/// # }
/// ```
pub struct File {
    mount: Arc<Mount>,
    ino: Ino,
    path: PathBuf,
    read: bool,
    write: bool,
    append: bool,
    pos: u64,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.path).field("pos", &self.pos).finish_non_exhaustive()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // An inode that cannot be freed now stays an orphan, which the unmount or the next open frees.
        let _freed_later = self.mount.engine.release(self.ino);
    }
}

impl File {
    pub(crate) fn open(dir: &Dir, path: &Path, options: &OpenOptions) -> Result<Self, Cause> {
        options.check()?;
        let ino = if options.create_new {
            let (parent, name) = parent(dir.engine(), dir.ino(), path)?;
            dir.engine().create(parent.ino, &name, options.mode, options.owner)?.ino
        } else {
            open_or_create(dir, path, options)?
        };
        let file = Self {
            mount: Arc::clone(dir.mount()),
            ino,
            path: path.to_owned(),
            read: options.read,
            write: options.writes(),
            append: options.append,
            pos: 0,
        };
        if options.truncate && !options.create_new {
            file.engine().setattr(ino, &SetAttr { size: Some(0), ..SetAttr::default() })?;
        }
        Ok(file)
    }

    /// For reading.
    pub(crate) fn of_inode(dir: &Dir, ino: Ino, path: PathBuf) -> Result<Self, Cause> {
        if dir.engine().find(ino)?.kind != FileType::Regular {
            return Err(refuse(errno::INVAL, "it is not a regular file"));
        }
        dir.engine().open(ino)?;
        let mount = Arc::clone(dir.mount());
        Ok(Self { mount, ino, path, read: true, write: false, append: false, pos: 0 })
    }

    fn engine(&self) -> &Volume {
        &self.mount.engine
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(Cause) -> Error {
        move |cause| Error::new(action, Some(&self.path), cause)
    }

    fn check_write(&self) -> Result<(), Cause> {
        if self.write { Ok(()) } else { Err(refuse(errno::BADF, "the file is not open for writing")) }
    }

    /// Reads from a position of the file; 0 at its end. It leaves the position of [`Read`] alone.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let mut read = || match self.read {
            true => Ok(self.engine().read(self.ino, offset, into)?),
            false => Err(refuse(errno::BADF, "the file is not open for reading")),
        };
        read().map_err(self.failed("read"))
    }

    /// Writes at a position of the file, or at its end if it was opened to append. Fewer bytes are written than given if
    /// space ends midway. It leaves the position of [`Write`] alone.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        Ok(self.write_somewhere(data, offset)?.0)
    }

    /// The number of bytes written, and the position after them.
    fn write_somewhere(&self, data: &[u8], offset: u64) -> Result<(usize, u64)> {
        let write = || {
            self.check_write()?;
            let _appending = self.append.then(|| self.mount.append.lock());
            let offset = if self.append { self.engine().getattr(self.ino)?.size } else { offset };
            let n = self.engine().write(self.ino, offset, data)?;
            Ok((n, offset.saturating_add(n as u64)))
        };
        write().map_err(self.failed("write"))
    }

    /// Attributes of the file.
    pub fn metadata(&self) -> Result<Metadata> {
        Ok(Metadata::new(self.engine().getattr(self.ino).doing_at("look up", &self.path)?))
    }

    /// Changes attributes of the file.
    pub fn set_metadata(&self, change: &SetMetadata) -> Result<()> {
        let changed = self.engine().setattr(self.ino, change.attrs());
        changed.map(|_| ()).doing_at("change the attributes of", &self.path)
    }

    /// Cuts the file, or extends it by a hole that reads as zeros.
    pub fn set_len(&self, len: u64) -> Result<()> {
        let set = SetAttr { size: Some(len), ..SetAttr::default() };
        let cut = || {
            self.check_write()?;
            self.engine().setattr(self.ino, &set)?;
            Ok(())
        };
        cut().map_err(self.failed("set the size of"))
    }

    /// Makes content and attributes durable. It also reports an earlier failure to write content back, once.
    pub fn sync_all(&self) -> Result<()> {
        self.engine().fsync(self.ino).doing_at("sync", &self.path)
    }

    /// Makes the content durable, and the metadata that is needed to read it.
    pub fn sync_data(&self) -> Result<()> {
        self.engine().fsync(self.ino).doing_at("sync", &self.path)
    }

    /// Reserves space for a range, so that writes to it do not fail for lack of space. The file grows if the
    /// range ends after its end.
    pub fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.fallocate(FallocMode::Allocate, offset, len).map_err(self.failed("allocate space for"))
    }

    /// Gives up the space of a range, which then reads as zeros; the size stays.
    pub fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.fallocate(FallocMode::PunchHole, offset, len).map_err(self.failed("free space of"))
    }

    fn fallocate(&self, mode: FallocMode, offset: u64, len: u64) -> Result<(), Cause> {
        self.check_write()?;
        Ok(self.engine().fallocate(self.ino, mode, offset, len)?)
    }

    /// The first byte at or after `offset` that has data; `None` if there are only holes up to the end.
    pub fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        some(self.engine().seek_data(self.ino, offset)).doing_at("find data of", &self.path)
    }

    /// The first byte at or after `offset` that lies in a hole, or the end of the file; `None` from its end on.
    pub fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        some(self.engine().seek_hole(self.ino, offset)).doing_at("find holes of", &self.path)
    }
}

/// "No such offset" is an answer.
fn some(found: segno_engine::Result<u64>) -> segno_engine::Result<Option<u64>> {
    match found {
        Err(segno_engine::Error::NoSuchOffset) => Ok(None),
        other => other.map(Some),
    }
}

fn open_or_create(dir: &Dir, path: &Path, options: &OpenOptions) -> Result<Ino, Cause> {
    let mut result = Err(segno_engine::Error::NotFound.into());
    for _ in 0..CREATE_TRIES {
        let (tried, raced) = match place(dir.engine(), dir.ino(), path, Last::Follow)? {
            Place::Found(attr) => (open_found(dir.engine(), &attr), segno_engine::Error::NotFound.errno()),
            Place::Missing { .. } if !options.create => return Err(segno_engine::Error::NotFound.into()),
            Place::Missing { .. } if path.as_os_str().as_encoded_bytes().ends_with(b"/") => {
                return Err(refuse(errno::ISDIR, "the path names a directory"));
            }
            Place::Missing { dir: parent, name } => {
                let created = dir.engine().create(parent.ino, &name, options.mode, options.owner);
                (created.map(|a| a.ino).map_err(Cause::from), segno_engine::Error::Exists.errno())
            }
        };
        match tried {
            Err(Cause::Engine(e)) if e.errno() == raced => result = Err(e.into()),
            other => return other,
        }
    }
    result
}

/// Opens a file if it is still the one that was looked up.
fn open_found(volume: &Volume, attr: &Attr) -> Result<Ino, Cause> {
    match attr.kind {
        FileType::Regular => {}
        FileType::Directory => return Err(segno_engine::Error::IsDir.into()),
        _ => return Err(refuse(errno::OPNOTSUPP, "it is not a regular file")),
    }
    volume.open(attr.ino)?;
    if volume.getattr(attr.ino)?.generation != attr.generation {
        volume.release(attr.ino)?;
        return Err(segno_engine::Error::NotFound.into());
    }
    Ok(attr.ino)
}

impl Read for File {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.read_at(into, self.pos)?;
        self.pos = self.pos.saturating_add(n as u64);
        Ok(n)
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let (n, pos) = self.write_somewhere(data, self.pos)?;
        self.pos = pos;
        Ok(n)
    }

    /// Does nothing, as nothing is buffered in the handle; see [`File::sync_all`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(pos) => (pos, 0),
            SeekFrom::End(by) => (self.metadata()?.len(), by),
            SeekFrom::Current(by) => (self.pos, by),
        };
        let outside =
            || self.failed("seek in")(refuse(errno::INVAL, "the position would be outside the file"));
        self.pos = base.checked_add_signed(by).ok_or_else(outside)?;
        Ok(self.pos)
    }
}
