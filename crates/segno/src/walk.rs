//! Everything below a directory.
use crate::error::{Error, Result, errno, refuse};
use crate::read_dir::{DirEntry, ReadDir};
use segno_format::dentry::FileType;

/// Everything below a directory; made by [`Dir::walk`](crate::Dir::walk). It goes on after an error, without the directory that
/// could not be read.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// # let device = segno::Device::in_memory(64 << 20);
/// # segno::format(&device, &segno::FormatOptions::new())?;
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
    /// From the start to the directory that is being read.
    above: Vec<ReadDir>,
    /// A directory that was returned and is read next.
    enter: Option<ReadDir>,
}

impl Walk {
    pub(crate) fn new(start: ReadDir) -> Self {
        Self { above: vec![start], enter: None }
    }

    /// Prepares to read a directory.
    fn open(&mut self, entry: &DirEntry) -> Result<()> {
        // Only damage can bring this about.
        if self.above.iter().any(|dir| dir.ino() == entry.ino()) {
            let cause = refuse(errno::UCLEAN, "the directory contains itself");
            return Err(Error::new("walk", Some(entry.path()), cause));
        }
        self.enter = Some(entry.read_dir()?);
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.above.extend(self.enter.take());
        loop {
            match self.above.last_mut()?.next() {
                None => _ = self.above.pop(),
                Some(Ok(entry)) if entry.file_type() == FileType::Directory => {
                    return Some(self.open(&entry).map(|()| entry));
                }
                Some(other) => return Some(other),
            }
        }
    }
}
