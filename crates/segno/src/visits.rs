//! Inodes and blocks that a reader of a tree has met, so that damage is neither followed in circles nor copied twice.
use crate::dir::Dir;
use crate::error::{Cause, Doing, Result};
use crate::metadata::Metadata;
use segno_format::dentry::FileType;
use std::path::Path;

/// The files and directories that a reader of a tree has met. [`Dir::walk`] has its own; a program that reads names or content of a
/// whole tree itself passes each path to [`Dir::visit`] before it does.
#[derive(Debug, Default)]
pub struct Visits(pub(crate) segno_engine::Visits);

impl Visits {
    /// Nothing was met.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Dir {
    /// Notes what a path names, of which these are the attributes. It fails, with the errno `EUCLEAN`, for a directory that was met
    /// by another name, which it still has. On a volume that is open for reading only it also fails for a file with more names than
    /// links, and for a block that belongs to anything met before.
    pub fn visit(&self, visits: &mut Visits, path: impl AsRef<Path>, found: &Metadata) -> Result<()> {
        let path = path.as_ref();
        let visited = match found.file_type() {
            FileType::Directory => {
                // The directory that the reader starts at has no name to it.
                let (parent, name) =
                    self.parent(path).map_or((self.ino(), Vec::new()), |(parent, name)| (parent.ino, name));
                self.engine().visit_dir(&mut visits.0, parent, &name, found.attr().ino)
            }
            _ => self.engine().visit_file(&mut visits.0, found.attr()),
        };
        visited.map_err(Cause::from).doing_at("read", path)
    }
}
