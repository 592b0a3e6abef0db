//! The names in a directory.
use crate::dir::Dir;
use crate::error::{Cause, Doing, Result, errno, refuse};
use crate::metadata::Metadata;
use crate::visits::Visits;
use segno_engine::Attr;
use segno_format::Ino;
use segno_format::dentry::FileType;
use segno_format::text;
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
/// # segno::format(&device, &segno::FormatOptions::default())?;
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
    /// Where reading starts again to find it first.
    at: u64,
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

    /// Notes the directory, to which a name leads; an empty one where a reader starts.
    pub(crate) fn visit(&self, visits: &mut Visits, parent: Ino, name: &[u8]) -> Result<()> {
        let visited = self.dir.engine().visit_dir(&mut visits.0, parent, name, self.dir.ino());
        visited.doing_at("read the directory", &self.path)
    }

    /// Closes the directory.
    pub(crate) fn into_path(self) -> PathBuf {
        self.path
    }

    /// Takes its path while a directory below it is read.
    pub(crate) fn lend_path(&mut self) {
        self.path = PathBuf::new();
    }

    /// Gives it its path back.
    pub(crate) fn set_path(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Forgets the names read ahead, which are read again.
    pub(crate) fn forget_batch(&mut self) {
        if let Some(first) = self.batch.front() {
            (self.next, self.failed) = (Some(first.at), None);
            self.batch.clear();
        }
    }

    /// Reads all names, and returns them in the order of their bytes. If an error ended the list, it follows
    /// the names.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        let mut all = Vec::from(std::mem::take(&mut self.batch));
        while let Some(from) = self.next {
            self.failed = self.fill(from).err();
            all.extend(self.batch.drain(..));
        }
        all.sort_by(|a, b| a.bytes.cmp(&b.bytes));
        self.batch = all.into();
        self
    }

    fn fill(&mut self, from: u64) -> Result<(), Cause> {
        let mut at = from;
        let (batch, next) = (&mut self.batch, &mut self.next);
        // Also after a failure.
        *next = None;
        let mut each = |e: segno_engine::DirEntry<'_>| {
            if batch.len() == BATCH {
                return false;
            }
            if e.name != b"." && e.name != b".." {
                batch.push_back(Name { at, bytes: e.name.to_vec(), ino: e.ino.0, kind: e.kind });
            }
            at = e.next;
            if batch.len() == BATCH {
                *next = Some(e.next);
            }
            true
        };
        self.dir.engine().readdir(self.dir.ino(), from, &mut each)?;
        Ok(())
    }

    /// Names become parts of paths; a name from a damaged volume must not lead outside the directory.
    fn entry(&self, name: Name) -> Result<DirEntry, Cause> {
        if name.bytes.is_empty() || name.bytes.iter().any(|&b| b == b'/' || b == 0) {
            let (ino, shown) = (self.dir.ino().0, text::name(&name.bytes));
            let why = format!("directory inode {ino} holds the impossible name \"{shown}\"");
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

    /// The type of the file, from the directory entry; costs nothing.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.name.kind
    }

    /// Inode number, from the directory entry; costs nothing.
    #[must_use]
    pub fn ino(&self) -> u32 {
        self.name.ino
    }

    /// Attributes of the file that has the name now. A symbolic link is not followed.
    pub fn metadata(&self) -> Result<Metadata> {
        Ok(Metadata::new(self.attr().doing_at("look up", &self.path)?))
    }

    /// Lists the directory that has this name.
    pub fn read_dir(&self) -> Result<ReadDir> {
        let dir = self.attr().and_then(|attr| self.dir.handle_of(&attr)).doing_at("open", &self.path)?;
        Ok(ReadDir::new(dir, self.path.clone()))
    }

    /// Lists the directory that has this name, unless damage leads to it again.
    pub(crate) fn visit_dir(&self, visits: &mut Visits) -> Result<ReadDir> {
        let dir = self.read_dir()?;
        dir.visit(visits, self.dir.ino(), &self.name.bytes)?;
        Ok(dir)
    }

    fn attr(&self) -> Result<Attr, Cause> {
        Ok(self.dir.engine().lookup(self.dir.ino(), &self.name.bytes)?)
    }
}
