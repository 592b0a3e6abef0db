//! The names in a directory.
use crate::dir::Dir;
use crate::error::{Cause, Doing, Result, errno, refuse};
use crate::metadata::Metadata;
use segno_engine::Attr;
use segno_format::dentry::FileType;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Names read ahead.
const BATCH: usize = 256;

/// The names in a directory; made by [`Dir::read_dir`]. Names that are created or removed meanwhile may be seen or not,
/// all others are seen once. After an error it ends.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// # let device = segno::Device::in_memory(64 << 20);
/// # segno::format(&device, &segno::FormatOptions::new())?;
/// # let volume = segno::Volume::open(&device)?;
/// volume.write("/large", vec![0; 10_000])?;
/// for entry in volume.read_dir("/")? {
///     let entry = entry?;
///     assert_eq!((entry.path().to_str(), entry.metadata()?.len()), (Some("/large"), 10_000));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ReadDir {
    dir: Dir,
    path: PathBuf,
    batch: VecDeque<Name>,
    /// Where the next batch starts, until the end was seen.
    next: Option<u64>,
    /// Comes after what is in the batch.
    failed: Option<Cause>,
}

#[derive(Debug)]
struct Name {
    bytes: Vec<u8>,
    ino: u32,
    kind: FileType,
}

impl ReadDir {
    pub(crate) fn new(dir: Dir, path: PathBuf) -> Self {
        Self { dir, path, batch: VecDeque::new(), next: Some(0), failed: None }
    }

    pub(crate) fn ino(&self) -> u32 {
        self.dir.ino().0
    }

    /// Closes the directory.
    pub(crate) fn into_path(self) -> PathBuf {
        self.path
    }

    fn fill(&mut self, from: u64) -> Result<(), Cause> {
        let (batch, next) = (&mut self.batch, &mut self.next);
        // Also after a failure.
        *next = None;
        let mut each = |e: segno_engine::DirEntry<'_>| {
            if batch.len() == BATCH {
                return false;
            }
            if e.name != b"." && e.name != b".." {
                batch.push_back(Name { bytes: e.name.to_vec(), ino: e.ino.0, kind: e.kind });
            }
            if batch.len() == BATCH {
                *next = Some(e.next);
            }
            true
        };
        self.dir.engine().readdir(self.dir.ino(), from, &mut each)?;
        Ok(())
    }

    /// Names become parts of paths; those of a damaged volume must not lead elsewhere.
    fn entry(&self, name: Name) -> Result<DirEntry, Cause> {
        if name.bytes.is_empty() || name.bytes.iter().any(|&b| b == b'/' || b == 0) {
            let (ino, text) = (self.dir.ino().0, String::from_utf8_lossy(&name.bytes));
            let why = format!("directory inode {ino} holds the impossible name {text:?}");
            return Err(refuse(errno::UCLEAN, why));
        }
        let path = self.path.join(OsStr::from_bytes(&name.bytes));
        Ok(DirEntry { dir: self.dir.clone(), name, path })
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.batch.is_empty()
            && let Some(from) = self.next
        {
            self.failed = self.fill(from).err();
        }
        let entry = match self.batch.pop_front() {
            Some(name) => self.entry(name),
            None => Err(self.failed.take()?),
        };
        if entry.is_err() {
            (self.batch, self.next, self.failed) = (VecDeque::new(), None, None);
        }
        Some(entry.doing_at("read the directory", &self.path))
    }
}

/// A name in a directory.
#[derive(Debug)]
pub struct DirEntry {
    dir: Dir,
    name: Name,
    path: PathBuf,
}

impl DirEntry {
    /// The name.
    #[must_use]
    pub fn file_name(&self) -> OsString {
        OsString::from_vec(self.name.bytes.clone())
    }

    /// The path of the directory as it was given, and the name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is, as the directory says; costs nothing.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.name.kind
    }

    /// Inode number, as the directory says; costs nothing.
    #[must_use]
    pub fn ino(&self) -> u32 {
        self.name.ino
    }

    /// Attributes of what has the name now. A symbolic link is not followed.
    pub fn metadata(&self) -> Result<Metadata> {
        Ok(Metadata::new(self.attr().doing_at("look up", &self.path)?))
    }

    /// Lists the directory that has this name.
    pub fn read_dir(&self) -> Result<ReadDir> {
        let dir = self.attr().and_then(|attr| self.dir.handle_of(&attr)).doing_at("open", &self.path)?;
        Ok(ReadDir::new(dir, self.path.clone()))
    }

    fn attr(&self) -> Result<Attr, Cause> {
        Ok(self.dir.engine().lookup(self.dir.ino(), &self.name.bytes)?)
    }
}
