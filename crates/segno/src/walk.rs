//! Everything below a directory.
use crate::error::Result;
use crate::read_dir::{DirEntry, ReadDir};
use crate::visits::Visits;
use segno_format::Ino;
use segno_format::dentry::FileType;

/// Directories of which names are read ahead while one below them is read. Of those above them they are read again, so that the
/// depth of a tree takes little memory.
const READ_AHEAD: usize = 64;

/// Everything below a directory; made by [`Dir::walk`](crate::Dir::walk). After an error it continues,
/// without the directory that could not be read. On a damaged volume a directory may contain itself or have
/// two names: it is read once, and each further name is an error. On a volume that is open for reading only
/// the same holds for two directories that share a block.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// # let device = segno::Device::in_memory(64 << 20);
/// # segno::format(&device, &segno::FormatOptions::default())?;
/// # let volume = segno::Volume::open(&device)?;
/// volume.create_dir_all("/a/b")?;
/// volume.write("/a/b/file", "")?;
/// let paths: segno::Result<Vec<_>> = volume.walk("/")?.map(|e| Ok(e?.path().to_owned())).collect();
/// assert_eq!(paths?, ["/a", "/a/b", "/a/b/file"].map(std::path::PathBuf::from));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Walk {
    /// From the start to the directory that is being read, which alone has its path.
    above: Vec<ReadDir>,
    /// A directory that was returned and is read next.
    enter: Option<ReadDir>,
    visits: Visits,
    sorted: bool,
}

impl Walk {
    pub(crate) fn new(start: ReadDir) -> Result<Self> {
        let mut visits = Visits::new();
        start.visit(&mut visits, Ino::NONE, b"")?;
        Ok(Self { above: vec![start], enter: None, visits, sorted: false })
    }

    /// Returns the names of each directory in the order of their bytes. All names of a directory are read at once.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.sorted = true;
        self.above = self.above.into_iter().map(ReadDir::sorted).collect();
        self
    }

    /// Prepares to read a directory.
    fn open(&mut self, entry: &DirEntry) -> Result<()> {
        let dir = entry.visit_dir(&mut self.visits)?;
        self.enter = Some(if self.sorted { dir.sorted() } else { dir });
        Ok(())
    }

    fn go_down(&mut self, dir: ReadDir) {
        let deep = self.above.len() > READ_AHEAD && !self.sorted;
        if let Some(outer) = self.above.last_mut() {
            outer.lend_path();
            if deep {
                outer.forget_batch();
            }
        }
        self.above.push(dir);
    }

    /// Leaves the directory that was read.
    fn go_up(&mut self) {
        let path = self.above.pop().map(ReadDir::into_path);
        if let (Some(outer), Some(mut path)) = (self.above.last_mut(), path) {
            path.pop();
            outer.set_path(path);
        }
    }
}

impl Iterator for Walk {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(dir) = self.enter.take() {
            self.go_down(dir);
        }
        loop {
            match self.above.last_mut()?.next() {
                None => self.go_up(),
                Some(Ok(entry)) if entry.file_type() == FileType::Directory => {
                    return Some(self.open(&entry).map(|()| entry));
                }
                Some(other) => return Some(other),
            }
        }
    }
}
