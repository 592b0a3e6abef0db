//! A directory that files are copied to.
use super::sink::{Copied, Sink, Source};
use crate::RescueError;
use rustix::io::Errno;
use segno_host::{HostTree, LeftOut, Preserve};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name of a file that is being written.
pub(super) const PARTIAL: &str = ".segno-rescue.part";

/// How to copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputOptions {
    /// Go on with a target that is not empty; files that are there with the right size and time are kept.
    pub resume: bool,
    /// Properties that are a matter of trust.
    pub preserve: Preserve,
}

/// The directory that files are copied to.
pub struct Target {
    pub(super) tree: HostTree,
    pub(super) path: PathBuf,
    pub(super) options: OutputOptions,
}

impl Target {
    /// Opens a directory, which is made if it does not exist.
    pub fn open(path: &Path, options: OutputOptions) -> Result<Self, RescueError> {
        let failed = |e| RescueError::target("cannot open", path, e);
        let mut tree = HostTree::create(path, options.preserve).map_err(failed)?;
        if !options.resume && !tree.is_empty().map_err(|e| RescueError::target("cannot read", path, e))? {
            return Err(RescueError::NotEmpty { path: path.to_owned() });
        }
        // Left by a run that was interrupted.
        let _absent = tree.remove(&[PARTIAL.into()]);
        Ok(Self { tree, path: path.to_owned(), options })
    }

    /// Properties that were left out.
    #[must_use]
    pub fn left_out(&self) -> LeftOut {
        self.tree.left_out()
    }

    pub(super) fn full(&self, path: &[Vec<u8>]) -> PathBuf {
        path.iter().fold(self.path.clone(), |p, name| p.join(OsStr::from_bytes(name)))
    }
}

impl Sink for Target {
    fn copy(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<Copied, RescueError> {
        self.file(path, source)
    }

    fn make_dir(&mut self, path: &[Vec<u8>]) -> Result<(), RescueError> {
        match self.tree.make_dir(path) {
            // A symbolic link of this name is refused when it is opened.
            Err(Errno::EXIST) if self.options.resume => Ok(()),
            done => done.map_err(|e| RescueError::target("cannot make", self.full(path), e)),
        }
    }

    fn link(&mut self, first: &[Vec<u8>], path: &[Vec<u8>]) -> Result<(), RescueError> {
        match self.tree.hard_link(first, path) {
            Err(Errno::EXIST) if self.options.resume => Ok(()),
            done => done.map_err(|e| RescueError::target("cannot link", self.full(path), e)),
        }
    }

    fn finish_dir(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<(), RescueError> {
        let read = source.xattrs();
        let done = self.tree.finish_dir(path, &source.attributes(&read.list));
        done.map(drop).map_err(|e| RescueError::target("attributes of", self.full(path), e))
    }
}

/// A name as one path component. An invalid one is replaced by a name made from the number.
pub(super) fn safe(name: &[u8], number: u32) -> Vec<u8> {
    let refused = name.is_empty()
        || name.len() > segno_format::NAME_MAX
        || name == b"."
        || name == b".."
        || name == PARTIAL.as_bytes()
        || name.iter().any(|&b| b == b'/' || b == 0);
    if refused { format!("#{number}").into_bytes() } else { name.to_vec() }
}
