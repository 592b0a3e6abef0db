//! How far a build is.
use std::fmt;
use std::path::PathBuf;

/// How far a build is.
#[derive(Clone, Copy)]
pub struct Progress<'a> {
    /// Gives the path that was completed last.
    pub path: &'a dyn Fn() -> PathBuf,
    /// Files and directories completed so far.
    pub files: u64,
    /// Bytes of content read so far.
    pub bytes: u64,
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("files", &self.files).field("bytes", &self.bytes).finish()
    }
}
