//! Counting what is written.
use crate::progress::Progress as Shown;
use crate::tree::{Index, Tree};

pub(crate) struct Progress<'a> {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) show: &'a mut dyn FnMut(Shown<'_>),
}

impl Progress<'_> {
    /// A file is complete.
    pub(crate) fn file(&mut self, tree: &Tree, index: Index) {
        self.files += 1;
        (self.show)(Shown { path: &|| tree.host_path(index), files: self.files, bytes: self.bytes });
    }
}
